#include "base/thread_name.h"

#include <pthread.h>

namespace coxswain::base {
namespace {

constexpr std::size_t kNameBytesMax = 15;  // of Linux, without the zero

}  // namespace

void name_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), ("cx-" + name).substr(0, kNameBytesMax).c_str());
}

}  // namespace coxswain::base
