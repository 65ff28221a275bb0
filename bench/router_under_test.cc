#include "router_under_test.h"

#include <array>
#include <chrono>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "load_client.h"
#include "require.h"

namespace coxswain::bench {
namespace {

constexpr int kLookPauseMs = 20;
constexpr int kStartLooksMax = 1500;

// One that nobody has at this moment.
std::uint16_t free_port() {
  const int fd = listen_on_loopback(1);
  const std::uint16_t port = port_of(fd);
  close(fd);
  return port;
}

}  // namespace

RouterUnderTest::RouterUnderTest(const Setup& setup) : port_(free_port()) {
  supervise::ChildSpec spec;
  spec.name = "router";
  spec.argv = {setup.program,
               "--tokenizer-name=" + setup.model,
               "--master-shard-uds-path=" + setup.socket_path,
               "--hostname=127.0.0.1",
               "--port=" + std::to_string(port_)};
  spec.argv.insert(spec.argv.end(), setup.options.begin(), setup.options.end());
  spec.environment = {{"LOG_LEVEL", "error"}};
  cpu_set_t before;
  CPU_ZERO(&before);
  sched_getaffinity(0, sizeof before, &before);
  if (setup.core) stay_on_core(*setup.core);
  process_.emplace(require(supervise::ChildProcess::spawn(spec)));
  sched_setaffinity(0, sizeof before, &before);
  for (int i = 0; i < kStartLooksMax; ++i) {
    if (process_->poll_exit()) break;
    if (answers(port_, "/health")) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookPauseMs));
  }
  std::array<char, 4096> said{};
  const ssize_t n = read(process_->stdout_fd(), said.data(), said.size() - 1);
  die(Status(Code::kUnavailable,
             setup.program + " does not serve: " + (n > 0 ? said.data() : "it says nothing")));
}

std::size_t RouterUnderTest::resident_bytes() const {
  std::ifstream file("/proc/" + std::to_string(process_->pid()) + "/statm");
  std::size_t n_pages = 0;
  std::size_t n_resident = 0;
  file >> n_pages >> n_resident;
  return n_resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

double RouterUnderTest::cpu_seconds() const {
  std::ifstream file("/proc/" + std::to_string(process_->pid()) + "/stat");
  std::string text;
  std::getline(file, text);
  text.erase(0, text.rfind(')') + 1);
  std::istringstream rest(text);
  std::string skipped;
  constexpr int kFieldsBefore = 11;  // of utime, behind the name
  for (int i = 0; i < kFieldsBefore; ++i) rest >> skipped;
  double user = 0;
  double system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

void stay_on_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace coxswain::bench
