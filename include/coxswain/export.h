#pragma once
// COXSWAIN_EXPORT marks what libcoxswain.so shows to programs; everything else stays hidden in it, so that a host may
// link other versions of what the library is made of. C and C++.

#if defined(__GNUC__)
#define COXSWAIN_EXPORT __attribute__((visibility("default")))
#else
#define COXSWAIN_EXPORT
#endif
