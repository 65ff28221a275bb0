#pragma once
// ParentWatch: calls back once the launcher that started this process is gone.
//
// The launcher leaves a descriptor in COXSWAIN_PARENT_PIPE, whose other end it alone holds; it reads
// end-of-file when the launcher ends, however it ends. Without the variable nothing is watched.
//
// Thread rule: made and destroyed by one thread; it watches on a thread of its own.

#include <functional>
#include <thread>

namespace coxswain::serve {

inline constexpr const char* kParentPipeVariable = "COXSWAIN_PARENT_PIPE";

class ParentWatch {
 public:
  // `on_gone` runs on the watching thread, at most once.
  explicit ParentWatch(std::function<void()> on_gone);
  ~ParentWatch();
  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

 private:
  int stop_fd_ = -1;
  std::thread thread_;
};

}  // namespace coxswain::serve
