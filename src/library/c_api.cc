// The C API (include/coxswain/coxswain.h).

#include <coxswain/coxswain.h>

extern "C" {

const char* coxswain_version(void) {
  return COXSWAIN_VERSION;
}

}  // extern "C"
