#include "router_load.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/cpu_topology.h"
#include "load_client.h"
#include "router_under_test.h"
#include "served_runner.h"
#include "word_runner.h"

namespace coxswain::bench {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint32_t kVocabulary = 3072;  // of models/demo
constexpr std::size_t kPromptWords = 24;

nanoseconds of_seconds(double s) {
  return duration_cast<nanoseconds>(std::chrono::duration<double>(s));
}

double in_ms(nanoseconds d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

// The least that so many of 100 do not exceed.
double percentile(std::vector<double> values, double percent) {
  if (values.empty())
    die(Status(Code::kUnavailable, "no request began and ended in the time; give it more SECONDS"));
  const auto rank = static_cast<std::size_t>(percent / 100 * static_cast<double>(values.size()));
  const std::size_t at = std::min(rank, values.size() - 1);
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return values[at];
}

// A prompt that no other request shares; its seed is `tag`.
std::string generation(std::uint64_t tag, std::size_t n_tokens) {
  std::string prompt = std::to_string(tag);
  for (std::size_t i = 0; i < kPromptWords; ++i) prompt += " word";
  return post_request("/generate_stream",
                      R"({"inputs":")" + prompt + R"(","parameters":{"do_sample":true,"seed":)" +
                          std::to_string(tag) + R"(,"max_new_tokens":)" + std::to_string(n_tokens) +
                          "}}");
}

// A shard in this process and the router before it, each on a core of its own if there are two.
class Rig {
 public:
  Rig(const RouterPlace& place, std::vector<std::string> options) {
    // Those of this process before the first rig bound it to one.
    static const std::vector<int> cores = base::order_by_core(base::allowed_cpus()).cpus;
    std::optional<int> core;
    if (cores.size() > 1) {
      core = cores[0];
      stay_on_core(cores[1]);
    }
    shard_ = std::make_unique<ServedShard>(runner_);
    for (const char* more : {"--connections-max=30000",
                             "--connections-per-address-max=30000",
                             "--requests-per-connection-max=1000000",
                             "--max-input-tokens=1024",
                             "--max-total-tokens=8192",
                             "--max-batch-prefill-tokens=131072",
                             "--queue-requests-max=100000",
                             "--queue-tokens-max=10000000",
                             "--shard-protocol=engine"})
      options.emplace_back(more);
    router_.emplace(RouterUnderTest::Setup{
        place.program, place.model, shard_->socket_path(), std::move(options), core});
  }

  WordRunner& runner() { return runner_; }
  const RouterUnderTest& router() const { return *router_; }

 private:
  WordRunner runner_{kVocabulary};
  std::unique_ptr<ServedShard> shard_;
  std::optional<RouterUnderTest> router_;
};

// A new connection with its first request; not so many at once that they have to wait for somebody to read them.
void begin(LoadClient& client,
           std::uint64_t tag,
           std::size_t n_tokens,
           const LoadClient::OnEnd& on_end) {
  client.send(client.connect(), generation(tag, n_tokens), tag);
  client.run(Clock::now() + milliseconds(2), on_end);
}

void expect_ok(const Reply& reply) {
  if (reply.status == 200) return;
  std::fprintf(stderr, "a request was answered with %d\n", reply.status);
  std::exit(1);
}

}  // namespace

ConnectionMemory connection_memory(const RouterPlace& place,
                                   std::size_t n_idle,
                                   std::size_t n_streams) {
  Rig rig(place, {"--max-concurrent-requests=4096", "--max-batch-size=4096"});
  // A token a second and stream, so that nothing waits for a core.
  rig.runner().set_step_time(std::chrono::seconds(1));
  LoadClient client(rig.router().port());
  const auto nothing = [](std::size_t, const Reply& reply) { expect_ok(reply); };
  // What is there once, whatever comes.
  client.send(client.connect(), generation(1, 2), 1);
  client.run(Clock::now() + std::chrono::seconds(4), nothing);
  const auto before = static_cast<double>(rig.router().resident_bytes());
  for (std::size_t i = 0; i < n_idle; ++i) client.connect();
  client.run(Clock::now() + std::chrono::seconds(1), nothing);
  const auto idle = static_cast<double>(rig.router().resident_bytes());
  // On connections of their own, beside the others.
  for (std::size_t i = 0; i < n_streams; ++i) begin(client, 2 + i, 4096, nothing);
  while (client.n_begun() < n_streams) client.run(Clock::now() + milliseconds(200), nothing);
  client.run(Clock::now() + std::chrono::seconds(3), nothing);
  const auto streaming = static_cast<double>(rig.router().resident_bytes());
  return {.idle_bytes = (idle - before) / static_cast<double>(n_idle),
          .stream_bytes = (streaming - idle) / static_cast<double>(n_streams),
          .peak_mib = streaming / (1 << 20)};
}

AddedTime added_time(const RouterPlace& place,
                     std::size_t n_streams,
                     double step_ms,
                     double seconds) {
  constexpr std::size_t kTokens = 64;
  Rig rig(place, {"--max-concurrent-requests=4096", "--max-batch-size=4096"});
  rig.runner().set_step_time(of_seconds(step_ms / 1000));
  LoadClient client(rig.router().port());
  std::vector<double> added;
  std::uint64_t next = 1;
  const TimePoint warm = Clock::now() + of_seconds(2 + 2 * step_ms * kTokens / 1000);
  const auto on_end = [&](std::size_t connection, const Reply& reply) {
    expect_ok(reply);
    const TimePoint computed = rig.runner().take_first_token_time(reply.tag);
    const auto worked = rig.runner().worked_until(computed) - rig.runner().worked_until(reply.sent);
    if (reply.sent > warm) added.push_back(in_ms(reply.first - reply.sent - worked));
    client.send(connection, generation(next, kTokens), next);
    ++next;
  };
  // Not all at once, so that some begin in every step.
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < n_streams; ++i) {
    const std::uint64_t tag = next++;
    begin(client, tag, 1 + random() % kTokens, on_end);
  }
  client.run(warm, on_end);
  const double cpu = rig.router().cpu_seconds();
  client.run(warm + of_seconds(seconds), on_end);
  AddedTime out{.router_cores = (rig.router().cpu_seconds() - cpu) / seconds, .n = added.size()};
  out.p50 = percentile(added, 50);
  out.p99 = percentile(added, 99);
  return out;
}

namespace {

// Requests that come when they come, whether others have been answered or not.
class Arrivals {
 public:
  Arrivals(LoadClient& client, double per_second, std::size_t n_tokens, std::uint64_t first_tag)
      : client_(client), gap_(per_second), n_tokens_(n_tokens), next_tag_(first_tag) {}

  void run(double seconds, const LoadClient::OnEnd& on_end) {
    const TimePoint end = Clock::now() + of_seconds(seconds);
    TimePoint next = Clock::now();
    const LoadClient::OnEnd note = [&](std::size_t connection, const Reply& reply) {
      idle_.push_back(connection);
      on_end(connection, reply);
    };
    while (next < end) {
      client_.run(next, note);
      if (idle_.empty()) idle_.push_back(client_.connect());
      client_.send(idle_.back(), generation(next_tag_, n_tokens_), next_tag_);
      idle_.pop_back();
      ++next_tag_;
      next += of_seconds(gap_(random_));
    }
  }

 private:
  LoadClient& client_;
  std::exponential_distribution<double> gap_;
  std::mt19937_64 random_{1};
  std::size_t n_tokens_;
  std::uint64_t next_tag_;
  std::vector<std::size_t> idle_;
};

}  // namespace

Overload overload(const RouterPlace& place, double factor, double seconds) {
  constexpr std::size_t kRequestsMax = 64;
  constexpr std::size_t kTokens = 16;
  constexpr double kStepSeconds = 0.01;
  Rig rig(place,
          {"--max-concurrent-requests=" + std::to_string(kRequestsMax), "--max-batch-size=32"});
  rig.runner().set_step_time(of_seconds(kStepSeconds));
  Overload out;
  std::uint64_t next = 1;
  {
    LoadClient client(rig.router().port());
    std::vector<double> times;
    const TimePoint warm = Clock::now() + std::chrono::seconds(1);
    const auto on_end = [&](std::size_t connection, const Reply& reply) {
      expect_ok(reply);
      if (reply.sent > warm) times.push_back(in_ms(reply.ended - reply.sent));
      client.send(connection, generation(next, kTokens), next);
      ++next;
    };
    for (std::size_t i = 0; i < kRequestsMax; ++i) {
      const std::uint64_t tag = next++;
      begin(client, tag, kTokens, on_end);
    }
    client.run(warm + of_seconds(seconds), on_end);
    out.capacity = static_cast<double>(times.size()) / seconds;
    out.p99_saturated_ms = percentile(times, 99);
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));  // what was cut off has ended
  LoadClient client(rig.router().port());
  std::vector<double> accepted;
  std::vector<double> refused;
  Arrivals(client, factor * out.capacity, kTokens, next)
      .run(seconds, [&](std::size_t, const Reply& reply) {
        if (reply.status != 429) expect_ok(reply);
        (reply.status == 429 ? refused : accepted).push_back(in_ms(reply.ended - reply.sent));
      });
  out.p99_overloaded_ms = percentile(accepted, 99);
  if (!refused.empty()) out.p99_refusal_ms = percentile(refused, 99);
  out.refused_share =
      static_cast<double>(refused.size()) / static_cast<double>(refused.size() + accepted.size());
  return out;
}

}  // namespace coxswain::bench
