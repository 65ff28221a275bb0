#include "conformance/sampling.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conformance/golden_values.h"
#include "json/json.h"
#include "sampling/candidates.h"
#include "sampling/forbidden_tokens.h"
#include "sampling/processors.h"
#include "sampling/row_math.h"
#include "sampling/sampler.h"
#include "sampling/select.h"
#include "sampling/warpers.h"
#include "sampling/watermark.h"

namespace coxswain::conformance {
namespace {

using sampling::CandidateSet;
using sampling::TokenCounts;

constexpr std::size_t kFileBytesMax = std::size_t{64} << 20;
constexpr double kTolerance = 2e-5;  // of scores and log-probabilities, relative above 1
constexpr int kDraws = 40'000;

using IdSet = std::set<TokenId>;

// Counts and the worst difference of one file; remembers the first failures.
struct FileVerdict {
  double worst = 0.0;
  std::size_t n_cases = 0;
  std::size_t n_failed = 0;
  std::map<std::string, std::size_t> not_offered;  // op -> cases
  std::string failures;

  void add(const std::string& name, const std::string& problem) {
    ++n_cases;
    if (problem.empty()) return;
    constexpr std::size_t kListed = 5;
    if (++n_failed <= kListed) failures += "\n       " + name + ": " + problem;
  }
  // False if they differ by more than the tolerance.
  bool compare(double seen, double expected) {
    if (std::isinf(expected) || std::isinf(seen)) return seen == expected;
    const double difference = std::fabs(seen - expected) / std::max(1.0, std::fabs(expected));
    worst = std::max(worst, difference);
    return difference <= kTolerance;
  }
  void report(ConformanceReport& out, const std::string& name) const {
    char line[96];
    std::snprintf(line, sizeof line, "%zu cases, worst difference %.1e", n_cases, worst);
    if (n_failed == 0) {
      out.pass(name, line);
    } else {
      out.fail(name, std::to_string(n_failed) + " of " + line + failures);
    }
    for (const auto& [op, count] : not_offered) {
      out.skip(std::string(name).append("-").append(op),
               std::to_string(count) + " cases of a step that is not offered");
    }
  }
};

// ---- steps ----

float value_of(const json::Value& step, std::string_view field = "value") {
  return static_cast<float>(golden_number(step, field, NAN));
}

TokenCounts counts_of(std::span<const TokenId> context, std::size_t prompt_length) {
  TokenCounts counts;
  counts.reset(context.first(prompt_length), context.size() - prompt_length);
  for (const TokenId id : context.subspan(prompt_length)) counts.add(id);
  return counts;
}

std::vector<std::pair<TokenId, float>> biases_of(const json::Value& step) {
  std::vector<std::pair<TokenId, float>> out;
  const json::Value* bias = step.find("bias");
  if (bias == nullptr || !bias->is_object()) return out;
  for (const auto& [key, value] : bias->as_object()) {
    TokenId id = -1;
    std::from_chars(key.data(), key.data() + key.size(), id);
    out.emplace_back(id, static_cast<float>(value.to_double().value_or(NAN)));
  }
  return out;
}

void remove_distinct(CandidateSet& set, std::vector<TokenId> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  remove_ids(set, ids);
}

// None is left out where none would stay.
void keep_ids(CandidateSet& set, const std::vector<TokenId>& ids) {
  std::vector<std::uint64_t> mask;
  for (const TokenId id : ids) {
    const auto index = static_cast<std::size_t>(id);
    if (index / 64 >= mask.size()) mask.resize(index / 64 + 1, 0);
    mask[index / 64] |= std::uint64_t{1} << (index % 64);
  }
  static_cast<void>(keep_masked(set, mask));
}

using Context = std::span<const TokenId>;
using StepFunction = void (*)(CandidateSet&, Context, const json::Value&);

std::size_t prompt_length_of(const json::Value& step) {
  return static_cast<std::size_t>(golden_number(step, "prompt_length", 0));
}

const std::map<std::string, StepFunction>& step_functions() {
  using V = const json::Value&;
  using S = CandidateSet&;
  static const std::map<std::string, StepFunction> functions = {
      {"temperature", [](S set, Context, V step) { apply_temperature(set, value_of(step)); }},
      {"top_k",
       [](S set, Context, V step) { keep_top_k(set, static_cast<std::size_t>(value_of(step))); }},
      {"top_p", [](S set, Context, V step) { keep_top_p(set, value_of(step)); }},
      {"min_p", [](S set, Context, V step) { keep_min_p(set, value_of(step)); }},
      {"typical_p", [](S set, Context, V step) { keep_typical(set, value_of(step)); }},
      {"epsilon_cutoff", [](S set, Context, V step) { keep_epsilon(set, value_of(step)); }},
      {"eta_cutoff", [](S set, Context, V step) { keep_eta(set, value_of(step)); }},
      {"repetition_penalty",
       [](S set, Context context, V step) {
         apply_repetition_penalty(set, counts_of(context, context.size()), value_of(step));
       }},
      {"frequency_penalty_tgi",
       [](S set, Context context, V step) {
         apply_relative_frequency_penalty(set, counts_of(context, context.size()), value_of(step));
       }},
      {"penalties_openai",
       [](S set, Context context, V step) {
         apply_count_penalties(set,
                               counts_of(context, prompt_length_of(step)),
                               sampling::Counted::kOutput,
                               value_of(step, "frequency"),
                               value_of(step, "presence"));
       }},
      {"no_repeat_ngram",
       [](S set, Context context, V step) {
         std::vector<TokenId> ids;
         sampling::add_repeated_ngrams(
             {.prompt = context, .output = {}}, static_cast<std::size_t>(value_of(step)), ids);
         remove_distinct(set, std::move(ids));
       }},
      {"min_new_tokens",
       [](S set, Context context, V step) {
         const std::size_t n_new = context.size() - prompt_length_of(step);
         if (n_new < static_cast<std::size_t>(value_of(step)))
           remove_distinct(set, golden_ids(step, "eos_ids"));
       }},
      {"logit_bias", [](S set, Context, V step) { apply_logit_bias(set, biases_of(step)); }},
      {"allowed_ids", [](S set, Context, V step) { keep_ids(set, golden_ids(step, "ids")); }},
  };
  return functions;
}

std::span<const json::Value> array_of(const json::Value& object, std::string_view field) {
  const json::Value* found = object.find(field);
  if (found == nullptr || !found->is_array()) return {};
  return found->as_array();
}

// The first step of a case that is not offered; empty if all are.
std::string unknown_step(const json::Value& test) {
  for (const json::Value& step : array_of(test, "steps")) {
    std::string op = golden_string(step, "op");
    if (step_functions().find(op) == step_functions().end()) return op;
  }
  return {};
}

// ---- comparing ----

IdSet expected_kept(const json::Value& test, std::size_t vocab) {
  IdSet out;
  const json::Value* kept = test.find("kept");
  if (kept != nullptr && kept->is_array()) {
    const auto ids = golden_ids(test, "kept");
    return {ids.begin(), ids.end()};
  }
  const auto mask = decode_base64(golden_string(test, "kept_mask"));
  for (std::size_t id = 0; id < vocab; ++id) {
    const bool in_mask = id / 8 < mask.size() && (mask[id / 8] >> (id % 8) & 1) != 0;
    if (kept != nullptr || in_mask) out.insert(static_cast<TokenId>(id));
  }
  return out;
}

IdSet kept_of(const CandidateSet& set) {
  IdSet out;
  for (std::size_t i = 0; i < set.size(); ++i) out.insert(set.id(i));
  return out;
}

// Which of equal ids stay at a cut is free, only their number counts; ids on the border may go either way.
std::string compare_kept(const json::Value& test, const IdSet& seen, const IdSet& expected) {
  const auto ties = golden_ids(test, "tie_ids");
  const auto borderline = golden_ids(test, "borderline_ids");
  const IdSet free_ids = [&] {
    IdSet out(ties.begin(), ties.end());
    out.insert(borderline.begin(), borderline.end());
    return out;
  }();
  for (const IdSet* one : {&seen, &expected}) {
    const IdSet& other = one == &seen ? expected : seen;
    for (const TokenId id : *one) {
      if (!other.contains(id) && !free_ids.contains(id))
        return "id " + std::to_string(id) + " is kept by one side only";
    }
  }
  if (ties.empty()) return {};
  const auto n_kept = static_cast<double>(
      std::count_if(ties.begin(), ties.end(), [&](TokenId id) { return seen.contains(id); }));
  const bool rounds = !borderline.empty() || golden_string(test, "vector") == "all_equal";
  const double off = std::fabs(n_kept - golden_number(test, "tie_kept", -1.0));
  return off <= (rounds ? 1.0 : 0.0) ? std::string()
                                     : "a tie keeps " + std::to_string(n_kept) + " ids";
}

std::string compare_dense(FileVerdict& verdict,
                          const json::Value& test,
                          CandidateSet& set,
                          bool same_ids) {
  const auto scores = golden_floats(test, "scores");
  const auto logprobs = golden_floats(test, "logprobs");
  const auto weights = set.weights();
  const double log_sum = std::log(weights.sum);
  for (std::size_t i = 0; i < set.size(); ++i) {
    const auto id = static_cast<std::size_t>(set.id(i));
    const double score = static_cast<double>(set.scores()[i]);
    // Of ids that are free to differ only those are compared that the reference kept.
    if (id >= scores.size()) return "no expected score of id " + std::to_string(id);
    if (std::isinf(scores[id])) continue;
    if (!verdict.compare(score, static_cast<double>(scores[id])))
      return "score of id " + std::to_string(id);
    const double logprob = score - static_cast<double>(weights.max_score) - log_sum;
    const bool known = same_ids && id < logprobs.size();
    if (known && !verdict.compare(logprob, static_cast<double>(logprobs[id])))
      return "log-probability of id " + std::to_string(id);
  }
  return {};
}

std::string compare_probes(FileVerdict& verdict,
                           const json::Value& test,
                           CandidateSet& set,
                           bool same_ids) {
  const auto weights = set.weights();
  const double logsumexp = static_cast<double>(weights.max_score) + std::log(weights.sum);
  if (same_ids && !verdict.compare(logsumexp, golden_number(test, "logsumexp", NAN)))
    return "logsumexp";
  const auto ids = golden_ids(test, "probe_ids");
  const auto scores = golden_doubles(test, "probe_scores");
  const auto logprobs = golden_doubles(test, "probe_logprobs");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto at = set.index_of(ids[i]);
    if (!at) continue;  // its absence was judged with the kept ids
    const double score = static_cast<double>(set.scores()[*at]);
    if (!verdict.compare(score, scores.at(i))) return "score of id " + std::to_string(ids[i]);
    if (same_ids && !verdict.compare(score - logsumexp, logprobs.at(i)))
      return "log-probability of id " + std::to_string(ids[i]);
  }
  return {};
}

// The best n with their ties, in an order that may differ inside a tie. Ids at -infinity, which the
// reference lists where fewer than n are left, are no candidates here.
std::string compare_top(const json::Value& test, CandidateSet& set) {
  const json::Value* top = test.find("top_n");
  if (top == nullptr || !top->is_object()) return {};
  for (const auto& [key, value] : top->as_object()) {
    std::size_t n = 0;
    std::from_chars(key.data(), key.data() + key.size(), n);
    IdSet expected;
    for (const json::Value& entry : value.as_array()) {
      const auto id = static_cast<TokenId>(entry.to_int64().value_or(-1));
      if (set.index_of(id)) expected.insert(id);
    }
    IdSet seen;
    float last = sampling::kScoreMax * 1e6F;
    for (const std::uint32_t index : sampling::best_candidates(set, n, set.size())) {
      seen.insert(set.id(index));
      if (set.scores()[index] > last) return "top " + key + " is not sorted";
      last = set.scores()[index];
    }
    if (seen != expected) return "top " + key;
  }
  return {};
}

std::string run_case(FileVerdict& verdict, const json::Value& test, std::span<const float> logits) {
  if (logits.empty()) return "no logits";
  CandidateSet set(logits.size());
  if (!set.assign(logits)) return "NaN in the logits";
  const auto context = golden_ids(test, "context");
  for (const json::Value& step : array_of(test, "steps")) {
    step_functions().at(golden_string(step, "op"))(set, context, step);
  }
  const IdSet seen = kept_of(set);
  const IdSet expected = expected_kept(test, logits.size());
  if (auto problem = compare_kept(test, seen, expected); !problem.empty()) return problem;
  const bool same_ids = seen == expected;
  const bool has_probes = test.find("probe_ids") != nullptr;
  auto problem = has_probes ? compare_probes(verdict, test, set, same_ids)
                            : compare_dense(verdict, test, set, same_ids);
  if (!problem.empty()) return problem;
  const auto best = golden_ids(test, "argmax_ids");
  const auto& scores = std::as_const(set).scores();
  const auto argmax = set.id(
      static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin()));
  if (same_ids && std::find(best.begin(), best.end(), argmax) == best.end()) return "argmax";
  return same_ids ? compare_top(test, set) : std::string();
}

// ---- files ----

void run_steps_file(FileVerdict& verdict, const json::Value& file) {
  std::map<std::string, std::vector<float>> vectors;
  if (const json::Value* found = file.find("vectors"); found != nullptr && found->is_object()) {
    for (const auto& [name, value] : found->as_object())
      vectors[name] = golden_floats(*found, name);
  }
  for (const json::Value& test : array_of(file, "cases")) {
    if (const std::string op = unknown_step(test); !op.empty()) {
      ++verdict.not_offered[op];
      continue;
    }
    verdict.add(golden_string(test, "name"),
                run_case(verdict, test, vectors[golden_string(test, "vector")]));
  }
}

void run_logprobs_file(FileVerdict& verdict, const json::Value& file) {
  for (const json::Value& test : array_of(file, "cases")) {
    std::vector<float> logits = golden_floats(test, "logits");
    if (logits.empty()) {  // the published example gives log-probabilities, which are logits too
      for (const double value : golden_doubles(test, "logprobs"))
        logits.push_back(static_cast<float>(value));
    }
    std::string problem = logits.empty() ? "no logits" : "";
    const auto expected = golden_floats(test, "log_softmax");
    for (std::size_t id = 0; id < expected.size() && problem.empty(); ++id) {
      const auto seen = sampling::logprob_of(logits, static_cast<TokenId>(id));
      const bool impossible = std::isinf(expected[id]) && seen.ok() && *seen < -1e29F;
      const bool equal =
          seen.ok() && (impossible || verdict.compare(static_cast<double>(*seen),
                                                      static_cast<double>(expected[id])));
      if (!equal) problem = "log-softmax of id " + std::to_string(id);
    }
    CandidateSet set(std::max<std::size_t>(logits.size(), 1));
    if (problem.empty() && set.assign(logits)) problem = compare_top(test, set);
    verdict.add(golden_string(test, "name"), problem);
  }
}

std::string run_watermark(const json::Value& test) {
  const auto vocab = static_cast<std::size_t>(golden_number(test, "vocab", 0));
  const auto n_green = static_cast<std::size_t>(golden_number(test, "n_green", 0));
  const auto mask = decode_base64(golden_string(test, "green_mask"));
  const auto first = golden_ids(test, "first16");
  if (vocab == 0 || mask.size() * 8 < vocab) return "no vocabulary or no mask";
  std::vector<std::uint32_t> room(vocab);
  const auto previous = static_cast<TokenId>(golden_number(test, "previous_id", -1));
  const auto green = sampling::green_ids(previous, golden_number(test, "gamma", NAN), room);
  if (green.size() != n_green) return std::to_string(green.size()) + " green ids";
  if (!std::equal(first.begin(), first.end(), green.begin())) return "the first green ids";
  CandidateSet set(vocab);
  if (!set.assign(std::vector<float>(vocab, 1.0F))) return "NaN in the logits";
  const float delta = value_of(test, "delta");
  sampling::apply_watermark(set, green, delta);
  for (std::size_t id = 0; id < vocab; ++id) {
    const bool is_green = (mask[id / 8] >> (id % 8) & 1) != 0;
    if (set.scores()[id] != (is_green ? 1.0F + delta : 1.0F))
      return "the score of id " + std::to_string(id);
  }
  return {};
}

void run_watermark_file(FileVerdict& verdict, const json::Value& file) {
  for (const json::Value& test : array_of(file, "cases")) {
    const auto vocab = static_cast<std::size_t>(golden_number(test, "vocab", 0));
    const auto previous = static_cast<std::size_t>(golden_number(test, "previous_id", 0));
    verdict.add("v" + std::to_string(vocab) + " behind " + std::to_string(previous),
                run_watermark(test));
  }
}

// Steps as request parameters. A mask becomes logits at -infinity, which every step leaves alone.
SamplingParams params_of(const json::Value& test, std::vector<float>& logits) {
  SamplingParams out{.do_sample = true};
  for (const json::Value& step : array_of(test, "steps")) {
    const std::string op = golden_string(step, "op");
    if (op == "temperature") out.temperature = value_of(step);
    if (op == "top_k") out.top_k = static_cast<std::int32_t>(value_of(step));
    if (op == "top_p") out.top_p = value_of(step);
    if (op == "typical_p") out.typical_p = value_of(step);
    if (op == "repetition_penalty") out.repetition_penalty = value_of(step);
    if (op == "frequency_penalty_tgi") out.relative_frequency_penalty = value_of(step);
    if (op != "allowed_ids") continue;
    const auto ids = golden_ids(step, "ids");
    for (std::size_t id = 0; id < logits.size(); ++id) {
      if (std::find(ids.begin(), ids.end(), static_cast<TokenId>(id)) == ids.end())
        logits[id] = -INFINITY;
    }
  }
  return out;
}

// Pearson's statistic over bins of at least 5 expected draws, the rest merged into one. Limit: mean
// + 5 standard deviations; the seeds are fixed, so a case always passes or never.
std::string chi_square(FileVerdict& verdict,
                       std::span<const double> probabilities,
                       std::span<const int> seen) {
  double statistic = 0.0;
  double bins = 0.0;
  double rest_expected = 0.0;
  double rest_seen = 0.0;
  const auto add_bin = [&](double expected, double count) {
    statistic += (count - expected) * (count - expected) / expected;
    bins += 1.0;
  };
  for (std::size_t id = 0; id < seen.size(); ++id) {
    const double expected = probabilities[id] * kDraws;
    if (expected == 0.0 && seen[id] > 0) return "id " + std::to_string(id) + " was drawn";
    if (expected >= 5.0) {
      add_bin(expected, seen[id]);
    } else {
      rest_expected += expected;
      rest_seen += seen[id];
    }
    verdict.worst = std::max(verdict.worst,
                             std::fabs(seen[id] / static_cast<double>(kDraws) - probabilities[id]));
  }
  if (rest_expected >= 1.0) add_bin(rest_expected, rest_seen);
  const double freedom = std::max(bins - 1.0, 1.0);
  return statistic <= freedom + 5.0 * std::sqrt(2.0 * freedom)
             ? std::string()
             : "chi-square " + std::to_string(statistic);
}

void run_distributions_file(FileVerdict& verdict, const json::Value& file) {
  for (const json::Value& test : array_of(file, "cases")) {
    const std::string name = golden_string(test, "name");
    std::vector<float> logits = golden_floats(test, "logits");
    const auto probabilities = golden_doubles(test, "probabilities");
    if (logits.empty() || probabilities.size() != logits.size()) {
      verdict.add(name, "no logits or probabilities");
      continue;
    }
    SamplingParams params = params_of(test, logits);
    const auto context = golden_ids(test, "context");
    const TokenCounts counts = counts_of(context, context.size());
    sampling::Sampler sampler(logits.size());
    std::vector<int> seen(logits.size(), 0);
    std::string problem;
    for (int draw = 0; draw < kDraws && problem.empty(); ++draw) {
      params.seed = static_cast<std::uint64_t>(draw);
      const auto out = sampler.sample(
          {.logits = logits, .params = &params, .counts = &counts, .position = context.size()});
      if (!out.ok()) problem = out.status().message();
      if (out.ok()) ++seen[static_cast<std::size_t>(out->token.id)];
    }
    verdict.add(name, problem.empty() ? chi_square(verdict, probabilities, seen) : problem);
  }
}

}  // namespace

ConformanceCounts run_sampling_conformance(const ConformanceOptions& options) {
  ConformanceReport report("sampling", options);
  for (const std::string& file_name : conformance_cases(options, "goldens/sampling")) {
    if (!file_name.ends_with(".json")) continue;
    const std::string name = file_name.substr(0, file_name.size() - 5);
    if (!report.wants(name)) continue;
    const auto file =
        json::parse_file(options.data_dir + "/goldens/sampling/" + file_name, kFileBytesMax);
    if (!file.ok()) {
      report.fail(name, file.status().message());
      continue;
    }
    FileVerdict verdict;
    if (name == "logprobs") {
      run_logprobs_file(verdict, *file);
    } else if (name == "watermark") {
      run_watermark_file(verdict, *file);
    } else if (name == "distributions") {
      run_distributions_file(verdict, *file);
    } else {
      run_steps_file(verdict, *file);
    }
    if (verdict.n_cases == 0) verdict.add(name, "the file has no cases");
    verdict.report(report, name);
  }
  return report.counts();
}

}  // namespace coxswain::conformance
