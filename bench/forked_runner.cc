#include "forked_runner.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/wait.h>

#include "require.h"
#include "rpc/shard_service.h"
#include "rpc/sharded_client.h"
#include "served_runner.h"
#include "telemetry/log.h"

namespace coxswain::bench {
namespace {

std::array<int, 2> pipe_or_die() {
  std::array<int, 2> out{};
  if (::pipe(out.data()) != 0) die({Code::kInternal, std::string("pipe: ") + std::strerror(errno)});
  return out;
}

// The child's life: until SIGTERM, or the end of its parent.
int serve(const runner::RunnerOptions& options, const std::string& path, int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &end, nullptr);  // of the threads that come, too
  const auto local = require(runner::LocalRunner::create(options));
  const NoText codec;
  telemetry::Logger log{{.level = telemetry::Level::kError, .target = "bench"}};
  rpc::ShardServiceOptions service_options;
  service_options.socket_path = path;
  const auto service = require(rpc::ShardService::start(*local, codec, service_options, log));
  if (::write(ready, "1", 1) != 1) return 1;
  int signal = 0;
  ::sigwait(&end, &signal);
  service->stop();
  return 0;
}

}  // namespace

ForkedRunner::ForkedRunner(const runner::RunnerOptions& options, std::string_view name) {
  const std::string file = "coxswain-bench-" + std::to_string(::getpid()) + std::string(name);
  path_ = (std::filesystem::temp_directory_path() / file).string();
  const auto [here, there] = pipe_or_die();
  pid_ = ::fork();
  if (pid_ < 0) die({Code::kInternal, std::string("fork: ") + std::strerror(errno)});
  if (pid_ == 0) {
    ::close(here);
    ::_exit(serve(options, path_, there));
  }
  ::close(there);
  ready_ = here;
}

ForkedRunner::~ForkedRunner() {
  ::close(ready_);
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

std::shared_ptr<StepRunner> ForkedRunner::connect() {
  char byte = 0;
  ssize_t n = 0;
  while ((n = ::read(ready_, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (n != 1) die({Code::kUnavailable, "a runner's process has ended"});
  return require(rpc::ShardedClient::connect(path_, {}));
}

}  // namespace coxswain::bench
