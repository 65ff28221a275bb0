// coxswain-bench-runner: a whole model through LocalRunner beside the limits of this machine; kHelp says more.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "arguments.h"
#include "base/numbers.h"
#include "draft_prompts.h"
#include "drafts.h"
#include "engine_share.h"
#include "grammar/compiler.h"
#include "machine_limits.h"
#include "measures.h"
#include "model_size.h"
#include "require.h"
#include "runner/local_runner.h"
#include "step_fit.h"
#include "streams.h"
#include "tier_hit.h"

namespace coxswain::bench {
namespace {

constexpr std::uint32_t kPromptTokens = 32;  // before a decode
constexpr std::uint32_t kBurst = 8;          // decode steps of a round
constexpr std::uint32_t kPrefillMax = 2048;
constexpr std::uint32_t kProfiledPrompt = 512;
constexpr std::uint32_t kMixedPrompt = 256;
constexpr std::uint32_t kLongChunk = 512;

struct Options {
  std::string model_dir;
  std::string quantize;
  std::string kv_type;
  std::size_t n_threads = std::max(1U, std::thread::hardware_concurrency());
  std::string isa;
  std::uint32_t batch = 16;
  std::uint32_t rounds = 6;
  std::string only;
  std::uint32_t tokens = 0;  // as parse() says, by the part
  std::uint32_t drafts = 6;
  std::string speculative_model;
  std::string prompts;

  std::uint32_t blocks_each() const { return (kPromptTokens + rounds * kBurst) / kBlockTokens + 1; }
  // Of `long`: prompts of whole chunks.
  std::uint32_t n_long() const {
    return std::max(base::round_up(tokens, kLongChunk), 2 * kLongChunk);
  }
  std::uint32_t long_blocks_each() const { return (n_long() + rounds * kBurst) / kBlockTokens + 1; }
  bool wants(std::string_view part) const { return only.empty() || only == part; }
};

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-runner MODEL_DIR [--quantize NAME] [--threads N] [--isa NAME]
                             [--batch N] [--rounds N] [--tokens N] [--drafts N] [--kv-cache-dtype NAME]
                             [--speculative-model DIR --prompts FILE]
                             [--only decode|prefill|long|mixed|disturbed|engine|profile|fit|tier|grammar|drafts]

A whole model beside the limits of this machine, measured in the same run. For dense models of
llama's shape, such as coxswain-make-model writes.

  --quantize NAME  int8, int4 or int4-g128: the format of the weights (as stored)
  --kv-cache-dtype NAME  float32, bfloat16, float16, int8, int4, fp8_e4m3fn or fp8_e5m2 (as the weights)
  --threads N      threads of the pool (all CPUs)
  --isa NAME       the instruction set, as --isa of the server (the best that this CPU has)
  --batch N        streams that decode together (16)
  --rounds N       rounds of decode steps (6)
  --only PART      one of the parts below (the first three)
  --tokens N       of the prompts of `tier` and of `long` (2000, 8192)
  --drafts N       tokens guessed ahead in a step of `drafts` (6)
  --speculative-model DIR  a draft model or heads that guess them
  --prompts FILE   with it: greedy answers to these, a golden.json as in models/demo, instead of `drafts`' own

  decode   tokens of one stream, and of a batch of streams, as shares of the read bandwidth: bytes
           of the matrices a step reads, over its time, over the bandwidth before and after it
  prefill  prompts of 512 and 2048 tokens, as shares of the arithmetic peak: operations of the
           matrices, over the whole time, attention and everything else included; one of 32 beside the larger of its
           operations at the peak and its weights at the read bandwidth
  long     tokens of a batch of streams over as many positions each, and the bytes of matrices and cache that
           a step reads as shares of the read bandwidth
  mixed    a step of a prompt of 256 tokens and of a batch of streams beside both in steps of their own
  disturbed  one stream, a batch and a prompt of 512 while another thread computes 3 of every 10 ms, beside the same
           without
  engine   the same decode steps behind the engine and a socket: what serving adds
  profile  what a step of 512 tokens, of one stream and of a batch of streams spend their time on, by operation
  fit      steps of all shapes up to a batch of streams, and what they say of the cost of a step:
           the constants of bench/step_costs.h, which coxswain-bench-scheduler --trace computes with
  tier     the first token of a prompt that is computed, in the cache, in memory behind it, in files;
           what a pause costs with its blocks lost and with them kept. Of any model
  grammar  a batch of streams, half of them greedy, each with a grammar of its own, and the same
           without: steps of both in turn, and their ratio; answers of a form with long names, with
           and without guesses of what the form forces. Of any model with a tokenizer
  drafts   decode with guesses of the tokens to come beside the same without: answers that are
           given, guessed with 70 of 100 tokens right, with none, looked up, and copies of the prompt that are
           looked up

Rounds alternate, because the bandwidth of some machines changes within a minute. The last line
says what other programs took: above a few percent the figures are not the machine's.
)";

Options parse(int argc, char** argv) {
  Arguments arguments(argc, argv, kHelp);
  Options options;
  options.quantize = arguments.one_of("quantize", {"int8", "int4", "int4-g128"}, "");
  options.kv_type =
      arguments.one_of("kv-cache-dtype",
                       {"float32", "bfloat16", "float16", "int8", "int4", "fp8_e4m3fn", "fp8_e5m2"},
                       "");
  options.n_threads = arguments.count("threads", static_cast<std::uint32_t>(options.n_threads));
  options.isa = arguments.text("isa");
  options.batch = arguments.count("batch", options.batch);
  options.rounds = arguments.count("rounds", options.rounds);
  options.only = arguments.one_of("only",
                                  {"decode",
                                   "prefill",
                                   "long",
                                   "mixed",
                                   "disturbed",
                                   "engine",
                                   "profile",
                                   "fit",
                                   "tier",
                                   "grammar",
                                   "drafts"},
                                  "");
  options.tokens = arguments.count("tokens", options.only == "long" ? 8192 : 2000);
  options.drafts = arguments.count("drafts", options.drafts);
  options.speculative_model = arguments.text("speculative-model");
  options.prompts = arguments.text("prompts");
  options.model_dir = arguments.required_word("MODEL_DIR");
  arguments.finish();
  return options;
}

runner::RunnerOptions runner_options(const Options& options) {
  runner::RunnerOptions out;
  out.model_dir = options.model_dir;
  out.without_text = options.only != "grammar";
  out.quantize = options.quantize;
  for (const tensor::DType type : tensor::kCacheTypes)
    if (options.kv_type == tensor::name_of(type)) out.kv_dtype = type;
  out.n_threads = options.n_threads;
  out.isa = options.isa;
  out.block_tokens = kBlockTokens;
  return out;
}

using StepObserver = std::function<void(const runner::StepReport&)>;

std::unique_ptr<runner::LocalRunner> make_runner(const Options& options, StepObserver on_step) {
  runner::RunnerOptions runner = runner_options(options);
  runner.kv_blocks =
      std::max({(1 + options.batch) * options.blocks_each() * (options.only == "grammar" ? 2 : 1),
                kPrefillMax / kBlockTokens + 1,
                options.only == "long" ? options.batch * options.long_blocks_each() : 0,
                options.only == "fit" ? step_fit_blocks(options.batch, kBlockTokens) : 0,
                draft_blocks(options.batch, kBlockTokens),
                prompt_blocks(options.batch, kBlockTokens)}) +
      1;
  runner.max_total_tokens =
      (options.only == "long" ? options.long_blocks_each() * kBlockTokens : kPrefillMax) +
      kBlockTokens;
  runner.max_batch_size = options.batch + 1;  // and a prompt beside them
  runner.draft_tokens_max = options.only == "grammar" ? 0 : options.drafts;
  runner.speculative_model_dir = options.speculative_model;
  runner.logits_processors = draft_processors();
  if (options.only == "profile") {
    runner.profile_steps = 1;
    runner.on_profile = std::move(on_step);
  }
  return require(runner::LocalRunner::create(runner));
}

class RunnerBench {
 public:
  explicit RunnerBench(const Options& options)
      : options_(options),
        parameters_(require(parameters_of(options.model_dir))),
        runner_(
            make_runner(options, [this](const runner::StepReport& step) { report_.add(step); })),
        exec_(options.n_threads),
        reader_(std::size_t{512} << 20),
        table_(*require(kernels::select_kernels(options.isa))),
        format_(*kernels::find_format(runner_->info().dtype)) {
    std::printf("%s, %s, %zu threads\n",
                runner_->info().kernel_set_id.c_str(),
                runner_->info().dtype.c_str(),
                runner_->n_threads());
  }

  void decode();
  void prefill(std::uint32_t n_tokens);
  void short_prompt();
  void long_context();
  void mixed();
  void disturbed();
  void engine() {
    for (const std::uint32_t n : {1U, options_.batch})
      print_engine_share(*runner_, n, kPromptTokens, options_.rounds * kBurst);
  }

  void grammar();
  void forced() {
    for (const std::uint32_t n : {1U, options_.batch})
      print_forced_gains(*runner_, n, options_.rounds);
  }
  void profile();
  void fit() { print_step_costs(*runner_, options_.batch); }
  void drafts() {
    for (const std::uint32_t n : {1U, options_.batch}) {
      if (options_.prompts.empty()) {
        print_draft_gains(*runner_, n, options_.rounds);
      } else {
        print_prompt_gains(*runner_, options_.prompts, n, options_.rounds);
      }
    }
  }

 private:
  double read() { return reader_.measure(exec_.pool(), Timer::kWall); }
  // Of all matrices; a head has 8 bits at least.
  double weight_bytes() const {
    const auto value_bytes = [](const kernels::WeightFormat& format) {
      const double scale = format.scheme.group == 0
                               ? 0.0
                               : static_cast<double>(format.scale_bytes) / format.scheme.group;
      return format.bits / 8.0 + scale;
    };
    return parameters_.layers * value_bytes(format_) +
           parameters_.head * std::max(value_bytes(format_), 1.0);
  }
  double peak() {
    return peak_for(
        measure_peaks(exec_.pool(), Timer::kWall), table_.isa, table_.ops(format_).arithmetic);
  }

  const Options& options_;
  const Parameters parameters_;
  runner::StepReport report_;  // of `profile`; added to while a step is waited for
  const std::unique_ptr<runner::LocalRunner> runner_;
  kernels::ExecContext exec_;
  ReadBandwidth reader_;
  const kernels::KernelTable& table_;
  const kernels::WeightFormat& format_;  // of the layers
};

void RunnerBench::decode() {
  const std::uint32_t each = options_.blocks_each();
  Streams one(*runner_, 1, 1, 1, each);
  Streams many(*runner_, 2, options_.batch, 1 + each, each);
  one.start(kPromptTokens);
  many.start(kPromptTokens);
  const double bytes = weight_bytes();
  std::vector<double> reads;
  std::vector<double> shares;
  std::vector<double> steps;
  std::vector<double> many_steps;
  std::vector<double> gains;
  std::vector<double> rests;
  for (std::uint32_t round = 0; round < options_.rounds; ++round) {
    const double before = read();
    const Streams::Burst burst = one.decode(kBurst);
    const double after = read();
    const Streams::Burst batch = many.decode(kBurst);
    reads.push_back((before + after) / 2);
    steps.push_back(burst.step_s);
    shares.push_back(bytes / burst.step_s / reads.back());
    many_steps.push_back(batch.step_s);
    gains.push_back(options_.batch * burst.step_s / batch.step_s);
    rests.push_back(burst.rest_s);
    std::printf(
        "  round: read %.1f, %.1f GB/s; 1 stream %.2f ms a step (sampling %.2f, rest %.3f), %.1f "
        "GB/s; %u streams %.2f ms a step (sampling %.2f)\n",
        before / 1e9,
        after / 1e9,
        burst.step_s * 1e3,
        burst.sample_s * 1e3,
        burst.rest_s * 1e3,
        bytes / burst.step_s / 1e9,
        options_.batch,
        batch.step_s * 1e3,
        batch.sample_s * 1e3);
  }
  one.drop();
  many.drop();
  std::printf(
      "decode 1: %.1f tok/s, %.1f GB/s of weights, %.0f %% of the read bandwidth %.1f GB/s\n",
      1 / median(steps),
      bytes / median(steps) / 1e9,
      100 * median(shares),
      median(reads) / 1e9);
  std::printf("decode %u: %.1f tok/s, %.2f x one stream\n",
              options_.batch,
              options_.batch / median(many_steps),
              median(gains));
}

void RunnerBench::long_context() {
  const std::uint32_t n_positions = options_.n_long();
  Streams streams(*runner_, 1, options_.batch, 1, options_.long_blocks_each());
  streams.fill(n_positions, kLongChunk);
  double cache = 0;  // bytes that a step reads at the beginning
  for (const KvGroup& group : runner_->info().kv_groups)
    cache +=
        static_cast<double>(group.bytes_per_block) * options_.batch * n_positions / kBlockTokens;
  std::vector<double> steps;
  std::vector<double> shares;
  for (std::uint32_t round = 0; round < options_.rounds; ++round) {
    const double before = read();
    steps.push_back(streams.decode(kBurst).step_s);
    shares.push_back(2 * (weight_bytes() + cache) / steps.back() / (before + read()));
  }
  std::printf(
      "%u streams over %u positions, %s cache: %.1f ms a step (%.1f to %.1f), "
      "%.2f GB of weights and %.2f GB of cache, %.0f %% of the read bandwidth\n",
      options_.batch,
      n_positions,
      runner_->info().kv_groups.front().dtype.c_str(),
      1e3 * median(steps),
      1e3 * std::ranges::min(steps),
      1e3 * std::ranges::max(steps),
      weight_bytes() / 1e9,
      cache / 1e9,
      100 * median(shares));
}

void RunnerBench::prefill(std::uint32_t n_tokens) {
  std::vector<double> shares;
  std::vector<double> times;
  double peak = 0;
  const double operations = 2 * (parameters_.layers * n_tokens + parameters_.head);
  const int n_repeats = n_tokens < kPrefillMax ? 3 : 1;
  for (int repeat = 0; repeat < n_repeats; ++repeat) {
    const double before = this->peak();
    Streams prompt(*runner_, 1, 1, 1, n_tokens / kBlockTokens + 1);
    times.push_back(prompt.start(n_tokens));
    prompt.drop();
    const double after = this->peak();
    peak = std::max({peak, before, after});
    shares.push_back(operations / times.back() / std::max(before, after));
  }
  std::printf("prefill %u: %.0f tok/s, %.3f T operations/s, %.0f %% of the peak %.3f T\n",
              n_tokens,
              n_tokens / median(times),
              operations / median(times) / 1e12,
              100 * median(shares),
              peak / 1e12);
}

void RunnerBench::short_prompt() {
  std::vector<double> times;
  std::vector<double> floors;
  const double operations = 2 * (parameters_.layers * kPromptTokens + parameters_.head);
  for (std::uint32_t round = 0; round < 3 * options_.rounds; ++round) {
    const double floor = std::max(operations / peak(), weight_bytes() / read());
    Streams prompt(*runner_, 1, 1, 1, kPromptTokens / kBlockTokens + 1);
    times.push_back(prompt.start(kPromptTokens));
    floors.push_back(times.back() / floor);
    prompt.drop();
  }
  std::printf("prefill %u: %.1f ms, %.2f x the larger of its operations and its weights\n",
              kPromptTokens,
              median(times) * 1e3,
              median(floors));
}

void RunnerBench::mixed() {
  const std::uint32_t blocks = kMixedPrompt / kBlockTokens + 1;
  Streams many(*runner_, 3, options_.batch, 1 + blocks, options_.blocks_each());
  many.start(kPromptTokens);
  std::vector<double> alone;
  std::vector<double> decodes;
  std::vector<double> together;
  std::vector<double> gains;
  for (std::uint32_t round = 0; round < options_.rounds; ++round) {
    Streams first(*runner_, 1, 1, 1, blocks);
    alone.push_back(first.start(kMixedPrompt));
    first.drop();
    decodes.push_back(many.decode(kBurst - 1).step_s);
    Streams second(*runner_, 2, 1, 1, blocks);
    together.push_back(second.start_beside(kMixedPrompt, many));
    second.drop();
    gains.push_back((alone.back() + decodes.back()) / together.back());
  }
  many.drop();
  std::printf(
      "mixed: prompt of %u %.1f ms, %u streams %.1f ms a step, both in one %.1f ms: %.2f x the "
      "sum\n",
      kMixedPrompt,
      median(alone) * 1e3,
      options_.batch,
      median(decodes) * 1e3,
      median(together) * 1e3,
      median(gains));
}

// A thread that computes 3 of every 10 ms while this lives.
class Disturbance {
 public:
  Disturbance()
      : thread_([this] {
          while (!stops_) {
            const auto begin = BenchClock::now();
            while (BenchClock::now() - begin < std::chrono::milliseconds(3)) {
            }
            std::this_thread::sleep_until(begin + std::chrono::milliseconds(10));
          }
        }) {}
  ~Disturbance() {
    stops_ = true;
    thread_.join();
  }
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;

 private:
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

void RunnerBench::disturbed() {
  const std::uint32_t each = options_.blocks_each();
  const std::uint32_t blocks = kProfiledPrompt / kBlockTokens + 1;
  Streams one(*runner_, 1, 1, 1 + blocks, each);
  Streams many(*runner_, 2, options_.batch, 1 + blocks + each, each);
  one.start(kPromptTokens);
  many.start(kPromptTokens);
  std::uint64_t id = 2 + options_.batch;
  const auto measure = [&] {
    const double single = one.decode(kBurst / 2).step_s;
    const double batch = many.decode(kBurst / 2).step_s;
    Streams prompt(*runner_, id++, 1, 1, blocks);
    const double first = prompt.start(kProfiledPrompt);
    prompt.drop();
    return std::array{single, batch, first};
  };
  std::array<std::vector<double>, 3> ratios;
  for (std::uint32_t round = 0; round < options_.rounds; ++round) {
    const auto quiet = measure();
    const Disturbance disturbance;
    const auto busy = measure();
    for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i].push_back(busy[i] / quiet[i]);
  }
  one.drop();
  many.drop();
  std::printf(
      "disturbed 3 of 10 ms: 1 stream %.2f x, %u streams %.2f x, prompt of %u %.2f x the time "
      "without\n",
      median(ratios[0]),
      options_.batch,
      median(ratios[1]),
      kProfiledPrompt,
      median(ratios[2]));
}

void RunnerBench::profile() {
  const auto print = [&](const std::string& what) {
    std::string text = report_.text();
    for (std::size_t at = 0; (at = text.find("; ", at)) != std::string::npos;)
      text.replace(at, 2, "\n  ");
    text.replace(text.find(": ") + 1, 1, "\n  ");
    std::printf("%s. %s\n", what.c_str(), text.c_str());
    report_ = {};
  };
  for (int repeat = 0; repeat < 3; ++repeat) {
    Streams prompt(*runner_, 1, 1, 1, kProfiledPrompt / kBlockTokens + 1);
    prompt.start(kProfiledPrompt);
    prompt.drop();
  }
  print("prompt of " + std::to_string(kProfiledPrompt));
  for (const std::uint32_t n : {1U, options_.batch}) {
    Streams streams(*runner_, 1, n, 1, options_.blocks_each());
    streams.start(kPromptTokens);
    report_ = {};
    for (std::uint32_t round = 0; round < options_.rounds; ++round) streams.decode(kBurst);
    print("decode " + std::to_string(n));
    streams.drop();
  }
}

// A list of 200 objects, whose names and bounds are the stream's own.
CompiledGrammar grammar_of_stream(std::uint32_t stream) {
  const std::string i = std::to_string(stream);
  const std::string schema =
      R"({"type":"array","minItems":200,"items":{"type":"object","properties":{"id)" + i +
      R"(":{"type":"string","pattern":"^[A-Z]{2}-[0-9]{4}$"},"kind":{"enum":["new","old","kind )" +
      i + R"("]},"count":{"type":"integer","minimum":)" + i + R"(},"note)" + i +
      R"(":{"type":"string","maxLength":)" + std::to_string(8 + stream % 16) +
      R"(},"parts":{"type":"array","items":{"type":"boolean"},"maxItems":3},"price":{"type":"number"}},)"
      R"("required":["id)" +
      i + R"(","kind","count","note)" + i + R"(","parts"]}})";
  return require(grammar::compile_source({.text = schema}));
}

void RunnerBench::grammar() {
  const std::uint32_t each = options_.blocks_each();
  std::vector<SamplingParams> free(options_.batch);
  for (std::uint32_t s = 0; s < options_.batch; ++s) {
    free[s].do_sample = s % 2 == 1;
    free[s].seed = s;
  }
  std::vector<SamplingParams> bound = free;
  for (std::uint32_t s = 0; s < options_.batch; ++s) bound[s].grammar = grammar_of_stream(s);
  Streams without(*runner_, 1, options_.batch, 1, each);
  Streams with(*runner_, 1 + options_.batch, options_.batch, 1 + options_.batch * each, each);
  without.start(kPromptTokens, free);
  with.start(kPromptTokens, bound);
  std::vector<double> ratios;
  std::vector<double> cpu_ratios;
  for (std::uint32_t round = 0; round < options_.rounds; ++round) {
    const std::clock_t first = std::clock();
    const Streams::Burst a = without.decode(kBurst);
    const std::clock_t second = std::clock();
    const Streams::Burst b = with.decode(kBurst);
    const std::clock_t third = std::clock();
    ratios.push_back(a.step_s / b.step_s);
    cpu_ratios.push_back(static_cast<double>(second - first) / static_cast<double>(third - second));
    std::printf("  round: %.2f ms a step (sampling %.2f), with grammars %.2f ms (sampling %.2f)\n",
                a.step_s * 1e3,
                a.sample_s * 1e3,
                b.step_s * 1e3,
                b.sample_s * 1e3);
  }
  without.drop();
  with.drop();
  std::printf(
      "grammar: %u streams with as many grammars decode at %.2f x the same without; by CPU time "
      "%.2f x\n",
      options_.batch,
      median(ratios),
      median(cpu_ratios));
}

void run_parts(const Options& options, OthersLoad& others) {
  if (options.only == "tier") {
    others.begin();
    return print_tier_hits(runner_options(options), options.tokens, options.rounds);
  }
  RunnerBench bench(options);
  others.begin();
  if (options.only == "grammar") {
    bench.grammar();
    return bench.forced();
  }
  if (options.only == "profile") return bench.profile();
  if (options.wants("prefill")) {
    bench.prefill(512);
    bench.prefill(kPrefillMax);
    bench.short_prompt();
  }
  if (options.wants("decode")) bench.decode();
  if (options.only == "long") bench.long_context();
  if (options.only == "mixed") bench.mixed();
  if (options.only == "disturbed") bench.disturbed();
  if (options.wants("engine")) bench.engine();
  if (options.only == "fit") bench.fit();
  if (options.only == "drafts") bench.drafts();
}

int run(const Options& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  OthersLoad others;
  run_parts(options, others);
  others.end();
  std::printf("other programs took %.1f %% of all CPU time\n", 100 * others.share());
  return 0;
}

}  // namespace
}  // namespace coxswain::bench

// NOLINTNEXTLINE(bugprone-exception-escape): a library's exception may as well end a benchmark
int main(int argc, char** argv) {
  return coxswain::bench::run(coxswain::bench::parse(argc, argv));
}
