// coxswain-bench-soak: very many requests through one Executor, and what is left of them; kHelp says more.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <coxswain/session.h>

#include "arguments.h"
#include "measures.h"
#include "require.h"

namespace coxswain {
namespace {

using bench::process_cpu_seconds;
using bench::require;
using namespace std::chrono_literals;

constexpr std::string_view kHelp = R"(usage: coxswain-bench-soak MODEL [--requests N]

Serves N requests (5000) by one Executor over a small cache and looks at what they leave behind.

  MODEL  folder of a small model, for example models/demo-draft

Prompts of 1 to 48 tokens, many of which begin alike, 1 to 8 new tokens; some requests are cancelled, have several
sequences, deadlines, stop strings or priorities, and one in eight is a turn of a conversation that goes on, is rolled
back, ended or killed. One in a hundred is asked again and again: its answer must be the first one, bit for bit.

Prints resident memory along the way. Ends with 1 unless all of this holds: memory at no time behind the first tenth is
more than 8 MiB above its most within it; at the end every block of the cache is free; then the process takes no more
than 0.1 % of a core.
)";

constexpr std::size_t kInFlight = 64;
constexpr double kGrowthMaxMib = 8.0;
constexpr double kIdleShareMax = 0.001;
constexpr std::uint32_t kProbes = 8;
constexpr std::uint32_t kTotalTokensMax = 256;

// splitmix64.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint32_t below(std::uint32_t n) {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return static_cast<std::uint32_t>((z ^ (z >> 31U)) % n);
  }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t n_pages = 0;
  std::uint64_t n_resident = 0;
  statm >> n_pages >> n_resident;
  return static_cast<double>(n_resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1048576.0;
}

// One in three begins with the same tokens, one in three with others.
std::vector<TokenId> draw_prompt(Dice& dice, std::uint32_t n, std::uint32_t vocab_size) {
  std::vector<TokenId> ids;
  const std::uint32_t family = dice.below(3);
  const std::uint32_t n_alike = family == 0 ? 0 : dice.below(n + 1);
  for (std::uint32_t i = 0; i < n; ++i)
    ids.push_back(static_cast<TokenId>((i < n_alike ? 100 * family + i : dice.below(vocab_size)) %
                                       vocab_size));
  return ids;
}

Request draw_request(Dice& dice, std::uint32_t vocab_size) {
  Request r;
  r.prompt.ids = draw_prompt(dice, 1 + dice.below(dice.one_in(4) ? 48 : 12), vocab_size);
  r.stopping.max_new_tokens = 1 + dice.below(8);
  r.stopping.ignore_eos = true;
  r.sampling.do_sample = dice.one_in(2);
  r.sampling.seed = dice.below(1000);
  r.priority = static_cast<std::int32_t>(dice.below(3));
  if (dice.one_in(32)) r.n = 3;
  if (dice.one_in(32)) r.deadline = Clock::now() + std::chrono::milliseconds(dice.below(20));
  if (dice.one_in(16)) r.stopping.stop_sequences = {"a", "the"};
  if (dice.one_in(16)) r.cache_salt = "salt" + std::to_string(dice.below(100));
  if (dice.one_in(64)) r.prompt_logprobs = true;
  return r;
}

// The same request whenever it is asked for.
Request probe(std::uint32_t index, std::uint32_t vocab_size) {
  Dice dice(index);
  Request r;
  r.prompt.ids = draw_prompt(dice, 4 + 5 * index, vocab_size);
  r.stopping.max_new_tokens = 6;
  r.stopping.ignore_eos = true;
  r.sampling.do_sample = index % 2 == 1;
  r.sampling.seed = index;
  return r;
}

struct Counts {
  std::uint64_t n_finished = 0;
  std::uint64_t n_cancelled = 0;
  std::uint64_t n_late = 0;
  std::uint64_t n_failed = 0;
  std::uint64_t n_probes = 0;
  std::uint64_t n_different = 0;

  void note(const Response& last) {
    if (last.status.ok()) {
      ++n_finished;
    } else if (last.status.code() == Code::kCancelled) {
      ++n_cancelled;
    } else if (last.status.code() == Code::kDeadlineExceeded) {
      ++n_late;
    } else {
      if (n_failed++ == 0) std::fprintf(stderr, "failed: %s\n", last.status.message().c_str());
    }
  }
  void operator+=(const Counts& other) {
    n_finished += other.n_finished;
    n_cancelled += other.n_cancelled;
    n_late += other.n_late;
    n_failed += other.n_failed;
    n_probes += other.n_probes;
    n_different += other.n_different;
  }
};

// Resident memory after each fiftieth of the requests.
class Memory {
 public:
  explicit Memory(std::uint64_t n_requests) : n_requests_(n_requests) {}

  void note(std::uint64_t n_done) {
    if (n_done < next_ * n_requests_ / kMarks) return;
    const double mib = resident_mib();
    double& most = 10 * next_ <= kMarks ? most_at_first_ : most_later_;
    most = std::max(most, mib);
    if (next_ % 5 == 0)
      std::printf(
          "%9llu requests, resident %.1f MiB\n", static_cast<unsigned long long>(n_done), mib);
    std::fflush(stdout);
    ++next_;
  }
  double growth() const { return most_later_ - most_at_first_; }

 private:
  static constexpr std::uint64_t kMarks = 50;
  const std::uint64_t n_requests_;
  std::uint64_t next_ = 1;
  double most_at_first_ = 0.0;
  double most_later_ = 0.0;
};

// Keeps kInFlight requests open until as many are answered as shall be.
class Client {
 public:
  Client(Executor& engine, std::uint32_t vocab_size) : engine_(engine), vocab_size_(vocab_size) {
    for (std::uint32_t i = 0; i < kProbes; ++i) {
      enqueue(probe(i, vocab_size_), i);
      while (!open_.empty()) take();
    }
  }

  Counts run(std::uint64_t n_requests, Memory& memory, const std::atomic<std::uint64_t>& others) {
    while (n_done_ + others < n_requests) {
      while (open_.size() < kInFlight) enqueue_next();
      take();
      memory.note(n_done_ + others);
    }
    while (!open_.empty()) take();
    return counts_;
  }

 private:
  struct Open {
    std::optional<std::uint32_t> probe;
    std::vector<TokenId> tokens;
    bool cancels = false;  // at its first response
  };

  void enqueue(Request request, std::optional<std::uint32_t> probe) {
    open_[require(engine_.enqueue(std::move(request)))].probe = probe;
  }
  void enqueue_next() {
    if (dice_.one_in(100)) {
      const std::uint32_t i = dice_.below(kProbes);
      return enqueue(probe(i, vocab_size_), i);
    }
    const RequestId id = require(engine_.enqueue(draw_request(dice_, vocab_size_)));
    open_[id].cancels = dice_.one_in(16);
    if (dice_.one_in(32)) engine_.cancel(id);
  }

  void take() {
    const Response piece = engine_.await_any();
    Open& request = open_[piece.id];
    for (const OutputToken& token : piece.tokens) request.tokens.push_back(token.id);
    if (request.cancels && !piece.final) engine_.cancel(piece.id);
    if (!piece.final) return;
    if (request.probe) check_probe(*request.probe, request.tokens);
    counts_.note(piece);
    ++n_done_;
    open_.erase(piece.id);
  }

  // The first answer is of the request alone.
  void check_probe(std::uint32_t index, const std::vector<TokenId>& tokens) {
    ++counts_.n_probes;
    if (!answers_.contains(index)) answers_[index] = tokens;
    if (answers_[index] != tokens) ++counts_.n_different;
  }

  Executor& engine_;
  const std::uint32_t vocab_size_;
  Dice dice_{1};
  std::map<RequestId, Open> open_;
  std::map<std::uint32_t, std::vector<TokenId>> answers_;
  std::uint64_t n_done_ = 0;
  Counts counts_;
};

// Conversations, a turn at a time, as many turns as one in eight of all that is done.
Counts converse(Executor& engine,
                std::uint32_t vocab_size,
                std::uint64_t n_turns,
                std::atomic<std::uint64_t>& n_done) {
  constexpr std::uint32_t kSessions = 32;
  Dice dice(2);
  Counts counts;
  Sessions sessions(engine, {.sessions_max = kSessions});
  for (std::uint64_t i = 0; i < n_turns; ++i, ++n_done) {
    const std::uint64_t id = dice.below(kSessions);
    auto found = sessions.find(id);
    Session chat = found.ok() ? std::move(found).value() : require(sessions.start(id));
    const auto n_known = static_cast<std::uint32_t>(chat.history().size());
    if (n_known > kTotalTokensMax - 40) {
      if (const Status status = dice.one_in(2) ? chat.end() : chat.kill(); !status.ok())
        bench::die(status);
      chat = require(sessions.start(id));
    } else if (n_known > 0 && dice.one_in(6)) {
      if (const Status status = chat.step(dice.below(n_known)); !status.ok()) bench::die(status);
    }
    Request turn;
    turn.prompt.ids = draw_prompt(dice, 1 + dice.below(12), vocab_size);
    turn.stopping.max_new_tokens = 1 + dice.below(8);
    turn.stopping.ignore_eos = true;
    if (const Status status = chat.enqueue(std::move(turn)); !status.ok()) bench::die(status);
    if (dice.one_in(32)) chat.cancel();
    Response piece = chat.await();
    while (!piece.final) piece = chat.await();
    counts.note(piece);
  }
  return counts;
}

// The last request has no step behind it: when it is answered nothing holds a block.
bool blocks_are_free(Executor& engine) {
  Request last;
  last.prompt.ids = {1};
  last.stopping.max_new_tokens = 1;
  const RequestId id = require(engine.enqueue(std::move(last)));
  while (!engine.await(id).final) {
  }
  const std::vector<IterationStats> steps = engine.iteration_stats();
  const KvCacheStats kv = steps.empty() ? KvCacheStats{} : steps.back().kv;
  std::printf("%u of %u blocks free\n", kv.blocks_free, kv.blocks_max);
  return kv.blocks_max > 0 && kv.blocks_free == kv.blocks_max && kv.blocks_used == 0;
}

bool is_idle() {
  constexpr double kSeconds = 3.0;
  std::this_thread::sleep_for(100ms);
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(kSeconds));
  const double share = (process_cpu_seconds() - before) / kSeconds;
  std::printf("idle: %.3f %% of a core\n", 100.0 * share);
  return share <= kIdleShareMax;
}

int soak(const std::string& path, std::uint64_t n_requests) {
  LocalModelOptions options;
  options.total_tokens_max = kTotalTokensMax;
  options.batch_size_max = kInFlight;
  options.prefill_tokens_max = 512;
  options.kv_bytes = 1 << 20;
  const LocalModel model = require(open_model(path, options));
  const std::uint32_t vocab_size = model.info().vocab_size;
  ExecutorOptions engine_options;
  engine_options.batch_size_max = kInFlight;
  engine_options.prefill_tokens_max = 512;
  engine_options.iteration_stats_max = 1;
  Executor engine(model, engine_options);

  const auto begin = Clock::now();
  Client client(engine, vocab_size);
  Memory memory(n_requests);
  std::atomic<std::uint64_t> n_turns_done{0};
  Counts of_sessions;
  std::thread sessions(
      [&] { of_sessions = converse(engine, vocab_size, n_requests / 8, n_turns_done); });
  Counts counts = client.run(n_requests, memory, n_turns_done);
  sessions.join();
  counts += of_sessions;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf(
      "%.0f s, %.0f requests/s: %llu finished, %llu cancelled, %llu late, %llu failed; %llu asked "
      "again, %llu differ\n",
      seconds,
      static_cast<double>(n_requests) / seconds,
      static_cast<unsigned long long>(counts.n_finished),
      static_cast<unsigned long long>(counts.n_cancelled),
      static_cast<unsigned long long>(counts.n_late),
      static_cast<unsigned long long>(counts.n_failed),
      static_cast<unsigned long long>(counts.n_probes),
      static_cast<unsigned long long>(counts.n_different));
  std::printf("resident memory grew by %.1f MiB behind the first tenth, at most %.0f may\n",
              memory.growth(),
              kGrowthMaxMib);
  const bool flat = memory.growth() <= kGrowthMaxMib;
  const bool free = blocks_are_free(engine);
  const bool idle = is_idle();
  const bool right = counts.n_failed == 0 && counts.n_different == 0;
  return flat && free && idle && right ? 0 : 1;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  coxswain::bench::Arguments arguments(argc, argv, coxswain::kHelp);
  const std::uint32_t n_requests = arguments.count("requests", 5'000);
  const std::string model = arguments.required_word("MODEL");
  arguments.finish();
  try {
    return coxswain::soak(model, n_requests);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
