#pragma once
// What a process does when it was started with a standard stream closed.

#include <fcntl.h>

namespace coxswain::serve {

// Opens /dev/null in the place of closed standard streams. First thing in main(): otherwise the
// next file or socket that is opened gets that number, and log lines are written into it.
inline void hold_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    // open() gives the lowest free number, which is fd.
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd) return;
  }
}

}  // namespace coxswain::serve
