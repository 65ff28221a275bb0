#pragma once
// RouterUnderTest: the program text-generation-router before a shard of this process, alone on a core of its own.
//
// Dies with a message where it cannot be had. Thread rule: made and used by the main thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervise/child_process.h"

namespace coxswain::bench {

class RouterUnderTest {
 public:
  struct Setup {
    std::string program;      // its path
    std::string model;        // folder of the tokenizer
    std::string socket_path;  // of the shard
    std::vector<std::string> options;
    std::optional<int> core;  // empty: any
  };
  explicit RouterUnderTest(const Setup& setup);

  std::uint16_t port() const { return port_; }
  std::size_t resident_bytes() const;
  // Of all its threads so far, user and system.
  double cpu_seconds() const;

 private:
  std::uint16_t port_ = 0;
  std::optional<supervise::ChildProcess> process_;
};

// Of the calling thread and of what it starts from now on.
void stay_on_core(int core);

}  // namespace coxswain::bench
