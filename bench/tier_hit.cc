#include "tier_hit.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "batch/engine.h"
#include "kvspill/spill_tier.h"
#include "measures.h"
#include "require.h"
#include "timed_sink.h"

namespace coxswain::bench {
namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

constexpr std::uint32_t kShortAnswer = 4;
constexpr std::uint32_t kAnswer = 64;  // tokens of one that is paused
constexpr std::uint64_t kTierBytes = std::uint64_t{1} << 30;

double since(TimePoint begin, TimePoint end) {
  return Seconds(end - begin).count();
}

std::uint64_t block_bytes(const RunnerInfo& info) {
  std::uint64_t n = 0;
  for (const KvGroup& group : info.kv_groups) n += group.bytes_per_block;
  return n;
}

batch::GenerationRequest prompt_of(std::uint32_t n_tokens, std::uint64_t id, std::string salt) {
  batch::GenerationRequest out;
  out.id = RequestId{id};
  for (std::uint32_t i = 0; i < n_tokens; ++i)
    out.prompt.push_back(static_cast<TokenId>(5 + (i * 37 + i / 50) % 1000));
  out.cache_salt = std::move(salt);
  out.stopping = {.max_new_tokens = kShortAnswer, .ignore_eos = true};
  return out;
}

void require_equal(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  if (a == b) return;
  std::puts("the tokens differ");
  std::exit(1);
}

// An engine with a tier, and a cache for so many tokens (0: all that the runner has).
class Station {
 public:
  Station(const std::shared_ptr<runner::LocalRunner>& runner,
          const kvspill::SpillOptions& spill,
          std::uint32_t n_cache_tokens = 0)
      : tier_(require(kvspill::make_tier(spill, runner->info()))),
        engine_(batch::Engine::create(runner,
                                      {.policy = CapacityPolicy::kMaxUtilization,
                                       .batch_total_tokens_max = n_cache_tokens,
                                       .tier = tier_})) {}

  struct Answer {
    double first_token_s = 0;
    std::vector<TokenId> ids = {};
  };
  Answer ask(std::uint32_t n_tokens, const std::string& salt) {
    const auto sink = std::make_shared<TimedSink>();
    const TimePoint begin = submit(prompt_of(n_tokens, ++n_requests_, salt), sink);
    sink->wait();
    return {since(begin, sink->first_at()), sink->ids()};
  }
  TimePoint submit(batch::GenerationRequest request, const std::shared_ptr<TimedSink>& sink) {
    const TimePoint begin = Clock::now();
    if (Status status = engine_->submit(std::move(request), sink); !status.ok()) die(status);
    return begin;
  }
  std::uint64_t next_id() { return ++n_requests_; }
  KvTierStats stats() const {
    KvTierStats out = tier_->stats();
    const KvTierStats of_engine = engine_->stats().tier;
    out.blocks_onboarded = of_engine.blocks_onboarded;
    out.paused_blocks_offloaded = of_engine.paused_blocks_offloaded;
    out.paused_blocks_onboarded = of_engine.paused_blocks_onboarded;
    return out;
  }
  // Until the tier has so many blocks. Dies where it does not get them.
  void wait_for_blocks(std::uint64_t n) const {
    const TimePoint until = Clock::now() + std::chrono::seconds(30);
    while (stats().blocks_held + stats().memory_blocks_held < n) {
      if (Clock::now() > until) die({Code::kInternal, "the tier has not got the blocks"});
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

 private:
  std::shared_ptr<batch::BlockTier> tier_;
  std::unique_ptr<batch::Engine> engine_;
  std::uint64_t n_requests_ = 0;
};

struct Hits {
  std::vector<double> computed_s;
  std::vector<double> cached_s;
  std::vector<double> found_s;
  std::uint64_t n_blocks = 0;  // brought back for a prompt
};

// A prompt is computed and asked for again; two others displace it from a cache for two, as the tier takes sequences
// that have ended of half of the cache at most; then it comes from the tier.
Hits measure_hits(Station& station,
                  std::uint32_t n_tokens,
                  std::uint32_t n_rounds,
                  std::uint32_t block_tokens) {
  Hits out;
  std::uint64_t n_kept = 0;
  const auto wait_for_one_more = [&] {
    n_kept += (n_tokens + kShortAnswer - 1) / block_tokens;
    station.wait_for_blocks(n_kept);
  };
  for (std::uint32_t i = 0; i <= n_rounds; ++i) {
    if (i == 1) out = {};  // the first one is to warm up
    const std::string salt = std::to_string(i);
    const Station::Answer computed = station.ask(n_tokens, salt);
    const Station::Answer cached = station.ask(n_tokens, salt);
    wait_for_one_more();
    for (const char* other : {"second ", "third "}) {
      station.ask(n_tokens, other + salt);
      wait_for_one_more();
    }
    const std::uint64_t before = station.stats().blocks_onboarded;
    const Station::Answer found = station.ask(n_tokens, salt);
    out.n_blocks = station.stats().blocks_onboarded - before;
    require_equal(cached.ids, computed.ids);
    require_equal(found.ids, computed.ids);
    out.computed_s.push_back(computed.first_token_s);
    out.cached_s.push_back(cached.first_token_s);
    out.found_s.push_back(found.first_token_s);
  }
  return out;
}

struct Pauses {
  std::vector<double> goes_on_s;  // from the end of the one that paused it to its next token
  std::vector<double> other_s;    // the other's first token
  KvTierStats tier;
};

// One that generates is paused by a prompt of higher priority that needs its blocks.
Pauses measure_pauses(Station& station, std::uint32_t n_tokens, std::uint32_t n_rounds) {
  Pauses out;
  for (std::uint32_t i = 0; i <= n_rounds; ++i) {
    if (i == 1) out = {};
    const std::string salt = "pause " + std::to_string(i);
    const auto low = std::make_shared<TimedSink>();
    batch::GenerationRequest request = prompt_of(n_tokens, station.next_id(), salt);
    request.stopping.max_new_tokens = kAnswer;
    station.submit(request, low);
    low->wait_tokens(8);
    const auto high = std::make_shared<TimedSink>();
    batch::GenerationRequest other = prompt_of(n_tokens, station.next_id(), salt + " other");
    other.priority = 1;
    const TimePoint begin = station.submit(std::move(other), high);
    high->wait();
    const TimePoint ended = high->wait_tokens(kShortAnswer);
    low->wait();
    out.other_s.push_back(since(begin, high->first_at()));
    out.goes_on_s.push_back(since(ended, low->first_behind(ended)));
    out.tier = station.stats();
  }
  return out;
}

void print_found(const char* where, const Hits& hits, std::uint64_t bytes_each) {
  const double mib = static_cast<double>(hits.n_blocks * bytes_each) / (1 << 20);
  const double more = median(hits.found_s) - median(hits.cached_s);
  std::printf("  %-32s %8.2f ms   %llu blocks, %.2f MiB, %.0f MiB/s beyond the cache's own\n",
              where,
              median(hits.found_s) * 1e3,
              static_cast<unsigned long long>(hits.n_blocks),
              mib,
              mib / more);
}

void print_pause(const char* how, const Pauses& pauses) {
  std::printf("  %-32s %8.2f ms   who paused it has its first token after %.2f ms\n",
              how,
              median(pauses.goes_on_s) * 1e3,
              median(pauses.other_s) * 1e3);
}

}  // namespace

void print_tier_hits(runner::RunnerOptions options,
                     std::uint32_t n_tokens,
                     std::uint32_t n_rounds) {
  options.max_total_tokens = n_tokens + kAnswer;
  options.kv_blocks = 2 * ((n_tokens + kAnswer) / options.block_tokens + 2);
  options.max_batch_size = 2;
  options.attachment_bytes_max = std::uint64_t{64} << 20;
  const std::shared_ptr<runner::LocalRunner> runner = require(runner::LocalRunner::create(options));
  const std::uint64_t bytes_each = block_bytes(runner->info());
  const fs::path folder =
      fs::temp_directory_path() / ("coxswain-bench-tier-" + std::to_string(::getpid()));
  const auto say = [](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  const kvspill::SpillOptions memory{.memory_bytes_max = kTierBytes, .warn = say};
  const kvspill::SpillOptions files{.path = folder, .file_bytes_max = kTierBytes, .warn = say};
  const auto hits = [&](const kvspill::SpillOptions& spill) {
    Station station(runner, spill);
    return measure_hits(station, n_tokens, n_rounds, options.block_tokens);
  };
  const auto pauses = [&](const kvspill::SpillOptions& spill) {
    Station station(runner, spill, n_tokens + kAnswer + options.block_tokens);
    return measure_pauses(station, n_tokens, n_rounds);
  };
  const Hits of_memory = hits(memory);
  const Hits of_files = hits(files);
  fs::remove_all(folder);
  std::printf("a prompt of %u tokens to its first token, medians of %u\n", n_tokens, n_rounds);
  std::printf("  %-32s %8.2f ms\n", "computed", median(of_memory.computed_s) * 1e3);
  std::printf("  %-32s %8.2f ms\n", "in the cache", median(of_memory.cached_s) * 1e3);
  print_found("in memory behind it", of_memory, bytes_each);
  print_found("in files", of_files, bytes_each);
  const Pauses lost = pauses({.memory_bytes_max = 1, .warn = [](std::string_view) {}});
  const Pauses kept = pauses(memory);
  std::printf("after a pause at %u tokens to the next token\n", n_tokens);
  print_pause("computed again", lost);
  print_pause("from memory behind the cache", kept);
  std::printf("  %llu blocks of paused ones were kept, %llu brought back\n",
              static_cast<unsigned long long>(kept.tier.paused_blocks_offloaded),
              static_cast<unsigned long long>(kept.tier.paused_blocks_onboarded));
}

}  // namespace coxswain::bench
