// coxswain-bench-idle: what engines cost while nothing is asked of them; kHelp says more.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include <coxswain/batch_manager.h>
#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <sys/resource.h>

#include "arguments.h"
#include "base/mutex.h"

namespace {

using namespace coxswain;
using namespace std::chrono_literals;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-idle MODEL [SECONDS]

Processor time that an idle engine takes, as a share of one core (getrusage of this process): a
bare thread that wakes every 2 ms (the limit of the machine for a manager), a BatchManager that
asks for requests every 2 ms, and an Executor. Each has answered a request first.

  MODEL    folder of a model, such as models/demo
  SECONDS  of each measurement (30)

Prints one line each: percent of a core, times a second that a thread went to sleep.
)";

struct Usage {
  double seconds = 0.0;
  std::int64_t n_sleeps = 0;
};

Usage usage_now() {
  rusage now{};
  getrusage(RUSAGE_SELF, &now);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {.seconds = seconds(now.ru_utime) + seconds(now.ru_stime), .n_sleeps = now.ru_nvcsw};
}

void measure(const char* what, std::chrono::seconds duration) {
  std::this_thread::sleep_for(100ms);  // what was under way has ended
  const Usage before = usage_now();
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(duration);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const Usage after = usage_now();
  const double percent = 100.0 * (after.seconds - before.seconds) / wall.count();
  std::printf("%-12s %6.3f %% of a core, %.0f sleeps a second\n",
              what,
              percent,
              static_cast<double>(after.n_sleeps - before.n_sleeps) / wall.count());
}

[[noreturn]] void fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

// Something that happens once, and a thread that waits for it.
class Moment {
 public:
  void come() EXCLUDES(mu_) {
    const base::MutexLock lock(mu_);
    has_come_ = true;
    changed_.notify_all();
  }
  void wait() EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return has_come_; });
  }
  bool wait_for(std::chrono::milliseconds timeout) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    return changed_.wait_for(lock, timeout, [&]() REQUIRES(mu_) { return has_come_; });
  }

 private:
  base::Mutex mu_;
  base::CondVar changed_;
  bool has_come_ GUARDED_BY(mu_) = false;
};

void measure_thread(std::chrono::seconds duration) {
  Moment end;
  std::thread bare([&] {
    while (!end.wait_for(2ms)) {
    }
  });
  measure("bare thread", duration);
  end.come();
  bare.join();
}

void measure_manager(const std::string& folder, std::chrono::seconds duration) {
  bool asked = false;  // on the manager's thread alone
  Moment answered;
  BatchManagerCallbacks on;
  on.get_requests = [&](std::int32_t) -> std::vector<std::shared_ptr<InferenceRequest>> {
    if (asked) return {};
    asked = true;
    auto request = std::make_shared<InferenceRequest>(std::uint64_t{1});
    request->set(NamedTensor::of<std::int32_t>("input_ids", {1, 3}, {1, 2, 3}));
    request->set(NamedTensor::of<std::int32_t>("request_output_len", {1, 1}, {8}));
    return {request};
  };
  on.send_response =
      [&](std::uint64_t, std::span<const NamedTensor>, bool final, const std::string& error) {
        if (!error.empty()) fail({Code::kInternal, error});
        if (final) answered.come();
      };
  on.poll_stop_signals = [] { return std::unordered_set<std::uint64_t>{}; };
  on.return_stats = [](const std::string&) {};
  auto manager = BatchManager::create(
      folder, BatchingType::kInflightFused, 1, CapacityPolicy::kGuaranteedNoEvict, std::move(on));
  if (!manager.ok()) fail(manager.status());
  answered.wait();
  measure("BatchManager", duration);
}

void measure_executor(const std::string& folder, std::chrono::seconds duration) {
  const auto model = open_model(folder);
  if (!model.ok()) fail(model.status());
  Executor engine(*model);
  Request request;
  request.prompt.ids = {1, 2, 3};
  request.stopping.max_new_tokens = 8;
  const auto id = engine.enqueue(std::move(request));
  if (!id.ok()) fail(id.status());
  while (!engine.await(id.value()).final) {
  }
  measure("Executor", duration);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv, kHelp);
  const std::string folder = arguments.required_word("MODEL");
  const std::chrono::seconds duration(arguments.count_word("SECONDS", 30));
  arguments.finish();
  measure_thread(duration);
  measure_manager(folder, duration);
  measure_executor(folder, duration);
}
