#pragma once
// ForkedRunner: a runner in a process of its own, behind a shard's socket, and the client that drives it.
//
// REQUIRES: no thread runs yet where it is made; the client connects later. Thread rule: one thread.

#include <memory>
#include <string>
#include <string_view>

#include <coxswain/step_runner.h>
#include <sys/types.h>

#include "runner/local_runner.h"

namespace coxswain::bench {

class ForkedRunner {
 public:
  // Several of a process have different names. Dies with a message if there can be no such process.
  ForkedRunner(const runner::RunnerOptions& options, std::string_view name);
  // Ends it.
  ~ForkedRunner();
  ForkedRunner(const ForkedRunner&) = delete;
  ForkedRunner& operator=(const ForkedRunner&) = delete;

  // Waits until the runner serves.
  std::shared_ptr<StepRunner> connect();

 private:
  std::string path_;
  pid_t pid_ = 0;
  int ready_ = -1;  // a byte of the child
};

}  // namespace coxswain::bench
