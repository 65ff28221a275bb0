#ifndef COXSWAIN_COXSWAIN_H_
#define COXSWAIN_COXSWAIN_H_
/* The C API of libcoxswain, C11. Every name begins with coxswain_ or COXSWAIN_. */

#include <coxswain/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, such as "0.1.0"; the text lives as long as the library. Any thread. */
COXSWAIN_EXPORT const char* coxswain_version(void);

#ifdef __cplusplus
}
#endif
#endif
