#pragma once
// COXSWAIN_EXPORT marks what libcoxswain.so shows to programs; everything else stays hidden in it, so that a host may
// link other versions of what the library is made of. COXSWAIN_HIDDEN takes out a class inside of such a class. C and
// C++.

#if defined(__GNUC__)
#define COXSWAIN_EXPORT __attribute__((visibility("default")))
#define COXSWAIN_HIDDEN __attribute__((visibility("hidden")))
#else
#define COXSWAIN_EXPORT
#define COXSWAIN_HIDDEN
#endif
