#include "supervise/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace coxswain::supervise {
namespace {

ChildSpec shell(std::string script) {
  return {.name = "test",
          .argv = {"/bin/sh", "-c", std::move(script)},
          .environment = {},
          .environment_removed = {}};
}

// Reads a descriptor until its other end is closed.
std::string read_all(int fd) {
  std::string out;
  char buffer[4096];
  for (;;) {
    pollfd wait{fd, POLLIN, 0};
    poll(&wait, 1, -1);
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n <= 0) return out;
    out.append(buffer, static_cast<std::size_t>(n));
  }
}

Exit wait_exit(ChildProcess& child) {
  for (;;) {
    if (const auto exit = child.poll_exit()) return *exit;
    poll(nullptr, 0, 1);
  }
}

TEST(ChildProcess, OutputEnvironmentAndExitStatus) {
  ChildSpec spec = shell("echo out $ADDED; echo err $HOME >&2; exit 7");
  spec.environment = {{"ADDED", "value"}};
  spec.environment_removed = {"HOME"};
  auto child = ChildProcess::spawn(spec);
  ASSERT_TRUE(child.ok()) << child.status().message();
  EXPECT_EQ(read_all(child->stdout_fd()), "out value\n");
  EXPECT_EQ(read_all(child->stderr_fd()), "err\n");
  const Exit exit = wait_exit(*child);
  EXPECT_EQ(exit.code, 7);
  EXPECT_EQ(exit.describe(), "exit status 7");
}

TEST(ChildProcess, DescriptorsThatItIsToKeepStayOpen) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  ChildSpec spec = shell("echo kept >&" + std::to_string(fds[1]));
  auto without = ChildProcess::spawn(spec);
  ASSERT_TRUE(without.ok());
  EXPECT_FALSE(wait_exit(*without).ok());
  spec.descriptors_kept = {fds[1]};
  auto with = ChildProcess::spawn(spec);
  ASSERT_TRUE(with.ok());
  EXPECT_TRUE(wait_exit(*with).ok());
  close(fds[1]);
  EXPECT_EQ(read_all(fds[0]), "kept\n");
  close(fds[0]);
}

TEST(ChildProcess, HeldSignalsWaitWhileTheProgramIsLoaded) {
  ChildSpec spec = shell("kill -TERM $$; echo alive");
  spec.signals_held = {SIGTERM};
  auto child = ChildProcess::spawn(spec);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(read_all(child->stdout_fd()), "alive\n");
  EXPECT_TRUE(wait_exit(*child).ok());
}

TEST(ChildProcess, MissingProgramIsAnErrorOfSpawn) {
  const auto child = ChildProcess::spawn({.name = "x",
                                          .argv = {"/nonexistent/program"},
                                          .environment = {},
                                          .environment_removed = {}});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.status().code(), Code::kNotFound);
}

TEST(ChildProcess, SignalsReachTheWholeGroup) {
  auto child = ChildProcess::spawn(shell("sleep 1000 & echo started; wait"));
  ASSERT_TRUE(child.ok());
  char buffer[16];
  pollfd wait{child->stdout_fd(), POLLIN, 0};
  poll(&wait, 1, -1);
  ASSERT_GT(read(child->stdout_fd(), buffer, sizeof buffer), 0);
  child->send_signal(SIGTERM);
  EXPECT_EQ(wait_exit(*child).signal, SIGTERM);
  EXPECT_EQ(read_all(child->stdout_fd()), "");  // ends only when the sleep is gone too
}

TEST(ChildProcess, ChildrenDieWithTheirParent) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t middle = fork();
  if (middle == 0) {
    // The grandchild keeps the write end of its standard output, which is ours, open as long as it lives.
    close(fds[0]);
    auto child = ChildProcess::spawn(shell("exec sleep 1000"));
    char done = child.ok() ? 'y' : 'n';
    [[maybe_unused]] auto n = write(fds[1], &done, 1);
    dprintf(fds[1], "%d", child.ok() ? child->pid() : -1);
    close(fds[1]);
    raise(SIGKILL);
  }
  close(fds[1]);
  const std::string text = read_all(fds[0]);
  close(fds[0]);
  waitpid(middle, nullptr, 0);
  ASSERT_EQ(text.substr(0, 1), "y");
  const pid_t grandchild = std::stoi(text.substr(1));
  // Killed by the kernel; it disappears once its new parent has reaped it.
  for (int i = 0; i < 10000 && kill(grandchild, 0) == 0; ++i) {
    char state = 0;
    if (FILE* file = fopen(("/proc/" + std::to_string(grandchild) + "/stat").c_str(), "r")) {
      if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
      fclose(file);
      if (state == 'Z') break;
    }
    poll(nullptr, 0, 1);
  }
  char state = 'Z';
  if (FILE* file = fopen(("/proc/" + std::to_string(grandchild) + "/stat").c_str(), "r")) {
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    fclose(file);
  }
  EXPECT_EQ(state, 'Z');
}

}  // namespace
}  // namespace coxswain::supervise
