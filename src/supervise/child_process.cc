#include "supervise/child_process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/wait.h>

namespace coxswain::supervise {
namespace {

// Both ends of a pipe; what is still open is closed at the end.
struct Pipe {
  int read = -1;
  int write = -1;

  bool open() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return false;
    read = fds[0];
    write = fds[1];
    return true;
  }
  ~Pipe() {
    if (read >= 0) close(read);
    if (write >= 0) close(write);
  }
  int take_read() { return std::exchange(read, -1); }
  int take_write() { return std::exchange(write, -1); }
};

std::vector<std::string> make_environment(const ChildSpec& spec, int life_fd) {
  std::vector<std::string> out;
  const auto replaced = [&](std::string_view name) {
    const auto same = [&](const auto& pair) { return pair.first == name; };
    return name == "COXSWAIN_PARENT_PIPE" || std::ranges::any_of(spec.environment, same) ||
           std::ranges::find(spec.environment_removed, name) != spec.environment_removed.end();
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!replaced(text.substr(0, text.find('=')))) out.emplace_back(text);
  }
  for (const auto& [name, value] : spec.environment)
    out.emplace_back(name).append("=").append(value);
  out.push_back("COXSWAIN_PARENT_PIPE=" + std::to_string(life_fd));
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// What the child needs between fork and exec, where only async-signal-safe calls are allowed.
struct ExecPlan {
  char* const* argv;
  char* const* environment;
  int stdout_fd;
  int stderr_fd;
  int life_fd;
  int error_fd;
  pid_t parent;
  sigset_t held;
  const std::vector<int>* kept;
};

[[noreturn]] void run_child(const ExecPlan& plan) {
  const auto fail = [&] {
    const int error = errno;
    [[maybe_unused]] const auto n = write(plan.error_fd, &error, sizeof error);
    _exit(127);
  };
  sigprocmask(SIG_SETMASK, &plan.held, nullptr);
  signal(SIGPIPE, SIG_DFL);
  if (setpgid(0, 0) != 0) fail();
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (getppid() != plan.parent) _exit(127);  // the parent ended before the line above
  const int null_fd = open("/dev/null", O_RDONLY);
  if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(plan.stdout_fd, 1) < 0 ||
      dup2(plan.stderr_fd, 2) < 0)
    fail();
  if (fcntl(plan.life_fd, F_SETFD, 0) != 0) fail();  // survives exec, as those that are kept do
  for (const int fd : *plan.kept) {
    if (fcntl(fd, F_SETFD, 0) != 0) fail();
  }
  execve(plan.argv[0], plan.argv, plan.environment);
  fail();
  _exit(127);
}

}  // namespace

std::string Exit::describe() const {
  if (signal != 0) return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  return "exit status " + std::to_string(code);
}

Result<ChildProcess> ChildProcess::spawn(const ChildSpec& spec) {
  Pipe out;
  Pipe err;
  Pipe life;
  Pipe failure;
  if (!out.open() || !err.open() || !life.open() || !failure.open()) {
    return Status(Code::kUnavailable,
                  "cannot make pipes for " + spec.name + ": " + std::strerror(errno));
  }
  std::vector<std::string> argv = spec.argv;
  std::vector<std::string> environment = make_environment(spec, life.read);
  const std::vector<char*> argv_pointers = pointers(argv);
  const std::vector<char*> environment_pointers = pointers(environment);
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : spec.signals_held) sigaddset(&held, signal);
  const ExecPlan plan{argv_pointers.data(),
                      environment_pointers.data(),
                      out.write,
                      err.write,
                      life.read,
                      failure.write,
                      getpid(),
                      held,
                      &spec.descriptors_kept};

  const pid_t pid = fork();
  if (pid < 0)
    return Status(Code::kUnavailable, "cannot start " + spec.name + ": " + std::strerror(errno));
  if (pid == 0) run_child(plan);

  close(failure.take_write());
  int error = 0;
  ssize_t n = 0;
  do {
    n = read(failure.read, &error, sizeof error);
  } while (n < 0 && errno == EINTR);
  if (n == sizeof error) {
    waitpid(pid, nullptr, 0);
    const Code code = error == ENOENT ? Code::kNotFound : Code::kUnavailable;
    return Status(code, "cannot start " + spec.argv.at(0) + ": " + std::strerror(error));
  }
  ChildProcess child;
  child.pid_ = pid;
  child.stdout_fd_ = out.take_read();
  child.stderr_fd_ = err.take_read();
  child.life_fd_ = life.take_write();
  fcntl(child.stdout_fd_, F_SETFL, O_NONBLOCK);
  fcntl(child.stderr_fd_, F_SETFL, O_NONBLOCK);
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      held_(other.held_),
      stdout_fd_(std::exchange(other.stdout_fd_, -1)),
      stderr_fd_(std::exchange(other.stderr_fd_, -1)),
      life_fd_(std::exchange(other.life_fd_, -1)) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    send_signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {stdout_fd_, stderr_fd_, life_fd_}) {
    if (fd >= 0) close(fd);
  }
}

void ChildProcess::send_signal(int signal) const {
  if (pid_ <= 0) return;
  // The group may not exist yet if the child has not reached setpgid.
  if (kill(-pid_, signal) != 0) kill(pid_, signal);
}

std::optional<Exit> ChildProcess::poll_exit() {
  if (pid_ <= 0) return std::nullopt;
  int status = 0;
  do {
    if (waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED) != pid_) return std::nullopt;
    held_ = WIFSTOPPED(status);
  } while (held_ || WIFCONTINUED(status));
  pid_ = -1;
  if (WIFSIGNALED(status)) return Exit{.code = 0, .signal = WTERMSIG(status)};
  return Exit{.code = WEXITSTATUS(status), .signal = 0};
}

}  // namespace coxswain::supervise
