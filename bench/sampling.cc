// coxswain-bench-sampling: what one row of logits costs to turn into a token; kHelp says more.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "sampling/sampler.h"

namespace coxswain {
namespace {

using BenchClock = std::chrono::steady_clock;

constexpr double kStepBytes = 2.47e9;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-sampling [VOCAB]

What one row of logits costs to turn into a token, for the usual parameters, on one core.

  VOCAB  entries of the vocabulary (128256)

Prints for each set of parameters the best time, how often the row could be read once in that
time at the read bandwidth of the core, and the share of a decode step of a 1B model in bfloat16
on the same core (2.47 GB of weights).
)";

constexpr int kRounds = 60;

template <typename Work>
double best_seconds(Work work) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = BenchClock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(BenchClock::now() - begin).count());
  }
  return best;
}

double read_bandwidth() {
  // 64 MiB: larger than the caches of a core.
  std::vector<std::uint64_t> data(std::size_t{64} << 17, 1);
  volatile std::uint64_t sink = 0;
  const double seconds = best_seconds([&] {
    std::uint64_t lanes[8] = {};
    for (std::size_t i = 0; i < data.size(); i += 8) {
      for (std::size_t l = 0; l < 8; ++l) lanes[l] ^= data[i + l];
    }
    sink = std::accumulate(std::begin(lanes), std::end(lanes), std::uint64_t{0});
  });
  static_cast<void>(sink);
  return static_cast<double>(data.size() * sizeof(std::uint64_t)) / seconds;
}

std::vector<std::pair<std::string, SamplingParams>> cases() {
  const SamplingParams sampled{.do_sample = true, .seed = 1};
  std::vector<std::pair<std::string, SamplingParams>> out;
  const auto add = [&](std::string name, SamplingParams params) {
    out.emplace_back(std::move(name), std::move(params));
  };
  add("greedy with log-probability", {});
  add("greedy, 5 alternatives", {.n_top_tokens = 5});
  add("greedy, 2 forbidden ids", {.no_repeat_ngram_size = 3});
  add("sample", sampled);
  SamplingParams p = sampled;
  p.temperature = 0.7F;
  add("temperature 0.7", p);
  p.top_k = 50;
  add("temperature 0.7, top-k 50", p);
  p.top_p = 0.9F;
  add("temperature 0.7, top-k 50, top-p 0.9", p);
  p.top_k = 0;
  add("temperature 0.7, top-p 0.9", p);
  p.temperature = 1e4F;  // nearly all of the vocabulary alike
  add("temperature 10000, top-p 0.9", p);
  p.temperature = 0.7F;
  p.top_p = 1.0F;
  p.min_p = 0.05F;
  add("temperature 0.7, min-p 0.05", p);
  p.min_p = 0.0F;
  p.typical_p = 0.9F;
  add("temperature 0.7, typical-p 0.9", p);
  p.temperature = 1e4F;
  add("temperature 10000, typical-p 0.9", p);
  p.temperature = 0.7F;
  p.typical_p = 1.0F;
  p.top_n_sigma = 1.0F;
  add("temperature 0.7, top-n-sigma 1", p);
  p.top_n_sigma = 0.0F;
  p.eta_cutoff = 3e-4F;
  add("temperature 0.7, eta 3e-4", p);
  p.eta_cutoff = 0.0F;
  p.dynatemp_range = 0.5F;
  add("temperature 0.7 +- 0.5", p);
  p.dynatemp_range = 0.0F;
  p.xtc_probability = 1.0F;
  add("temperature 0.7, XTC", p);
  p.xtc_probability = 0.0F;
  p.dry_multiplier = 0.8F;
  add("temperature 0.7, DRY, 4096 ids", p);
  p.dry_multiplier = 0.0F;
  p.watermark = true;
  add("temperature 0.7, watermark", p);
  p.watermark = false;
  p.repetition_penalty = 1.1F;
  add("temperature 0.7, repetition 1.1, 4096 ids", p);
  return out;
}

int run(std::size_t vocab) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 2.5F);
  std::vector<float> logits(vocab);
  for (float& value : logits) value = normal(random);
  std::vector<TokenId> context(4096);
  for (TokenId& id : context) id = static_cast<TokenId>(random() % vocab);
  sampling::TokenCounts counts;
  counts.reset(context, 0);
  sampling::Sampler sampler(vocab);

  const double bandwidth = read_bandwidth();
  const double row_seconds = static_cast<double>(vocab * sizeof(float)) / bandwidth;
  const double step_seconds = kStepBytes / bandwidth;
  std::printf(
      "vocabulary %zu; one core reads %.1f GB/s: the row in %.0f us, a 1B step in %.1f ms\n",
      vocab,
      bandwidth / 1e9,
      row_seconds * 1e6,
      step_seconds * 1e3);
  const std::vector<TokenId> forbidden{7, static_cast<TokenId>(vocab / 2)};
  sampling::RepetitionScratch scratch;
  std::vector<sampling::Repetition> repetitions;
  for (const auto& [name, params] : cases()) {
    std::uint64_t position = 0;
    bool ok = true;
    const bool forbids = params.no_repeat_ngram_size > 0;
    const bool repeats = sampling::wants_repetitions(params);
    const double seconds = best_seconds([&] {
      if (repeats)
        find_repetitions({.prompt = context, .output = {}}, {}, params, scratch, repetitions);
      ok = ok &&
           sampler
               .sample({.logits = logits,
                        .params = &params,
                        .counts = &counts,
                        .position = position++,
                        .forbidden = forbids ? std::span(forbidden) : std::span<const TokenId>(),
                        .repetitions = repetitions,
                        .previous = context.back()})
               .ok();
    });
    if (!ok) return 1;
    repetitions.clear();
    std::printf("%-42s %8.0f us  %5.1f x the row  %5.2f %% of a step\n",
                name.c_str(),
                seconds * 1e6,
                seconds / row_seconds,
                100.0 * seconds / step_seconds);
  }
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  coxswain::bench::Arguments arguments(argc, argv, coxswain::kHelp);
  const std::uint32_t vocab = arguments.count_word("VOCAB", 128'256);
  arguments.finish();
  return coxswain::run(vocab);
}
