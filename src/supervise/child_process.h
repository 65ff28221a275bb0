#pragma once
// ChildProcess: one started program whose output we read and whose end we hear of.
//
// A child dies with us (what it starts itself is its own affair): it gets SIGKILL when the thread
// that spawned it ends (PR_SET_PDEATHSIG), and the environment variable COXSWAIN_PARENT_PIPE names
// a descriptor that reads end-of-file when our process is gone. It runs in its own process group,
// with standard input from /dev/null and every other descriptor closed but those that it is to keep.
//
// Thread rule: spawn from a thread that lives as long as the process; one thread uses an object.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/status.h>
#include <sys/types.h>

namespace coxswain::supervise {

struct ChildSpec {
  std::string name;               // "shard-0", "router": for logs
  std::vector<std::string> argv;  // argv[0] is the path of the program
  // Added to ours, replacing equal names.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> environment_removed;
  // Blocked from the first instruction on, for a program that takes them itself once it runs: a
  // signal that comes while it is still being loaded waits and does not kill it.
  std::vector<int> signals_held = {};
  // Stay open in the child under the same numbers.
  std::vector<int> descriptors_kept = {};
};

// How a process ended.
struct Exit {
  int code = 0;    // exit status, if signal == 0
  int signal = 0;  // the signal that killed it
  bool ok() const { return signal == 0 && code == 0; }
  std::string describe() const;  // "exit status 3", "signal 9 (Killed)"
};

class ChildProcess {
 public:
  // Errors: kNotFound if the program does not exist, kUnavailable for anything else, naming it.
  static Result<ChildProcess> spawn(const ChildSpec& spec);

  ~ChildProcess();  // kills and reaps a child that still runs
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  int stdout_fd() const { return stdout_fd_; }  // non-blocking
  int stderr_fd() const { return stderr_fd_; }
  void send_signal(int signal) const;  // to its whole group; no effect once reaped
  // Reaps the child if it has ended.
  std::optional<Exit> poll_exit();
  // Whether a signal (SIGSTOP) held it when poll_exit() was called last.
  bool is_held() const { return held_; }

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
  bool held_ = false;
  int stdout_fd_ = -1;
  int stderr_fd_ = -1;
  int life_fd_ = -1;  // our end of the pipe whose closing tells the child that we are gone
};

}  // namespace coxswain::supervise
