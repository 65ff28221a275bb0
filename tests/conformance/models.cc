#include "conformance/models.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "conformance/golden_values.h"
#include "conformance/reference_model.h"
#include "json/json.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::conformance {
namespace {

using model::SingleSequence;

constexpr std::size_t kGoldenBytesMax = std::size_t{256} << 20;
constexpr double kTolerance = 1e-3;         // of logits and hidden states (goldens/README.md)
constexpr double kTrainedTolerance = 1e-4;  // of log-probabilities of the trained models
constexpr double kGapMin = 1e-3;  // greedy ids may part where best and second are nearer than this
constexpr std::uint32_t kGreedySteps = 24;
constexpr std::uint32_t kTokensMin = 512;  // room of a sequence, more where a prompt needs it
constexpr std::uint32_t kTokensMax = 16384;

// What a case has shown so far.
struct Verdict {
  double worst_logit = 0.0;
  double worst_hidden = 0.0;
  double worst_logprob = 0.0;
  std::size_t n_ids = 0;             // greedy ids compared
  std::size_t n_not_applicable = 0;  // prompts whose greedy ids cannot be compared

  std::optional<double> story_nll;
  std::string story_nll_of_caches;  // against a float32 cache

  std::string text() const {
    char line[160];
    std::snprintf(line,
                  sizeof(line),
                  "logits %.1e  hidden %.1e  logprob %.1e  %zu greedy ids",
                  worst_logit,
                  worst_hidden,
                  worst_logprob,
                  n_ids);
    std::string out = line;
    if (n_not_applicable > 0)
      out += ", " + std::to_string(n_not_applicable) +
             " prompts not applicable (rope depends on history)";
    if (story_nll) out += ", story NLL " + std::to_string(*story_nll) + story_nll_of_caches;
    return out;
  }
};

bool flag_of(const json::Value& object, std::string_view field) {
  const json::Value* found = object.find(field);
  return found != nullptr && found->is_bool() && found->as_bool();
}

// ---- comparing ----

Status check_close(
    double got, double expected, double tolerance, double& worst, const std::string& what) {
  const double difference = std::fabs(got - expected);
  worst = std::max(worst, difference);
  if (difference <= tolerance) return {};
  return mismatch(what + ": " + std::to_string(got) + ", expected " + std::to_string(expected));
}

// ---- one model ----

// Positions that the longest prompt with its answer needs.
std::uint32_t tokens_needed(const json::Value& golden, std::string_view ids_field) {
  std::size_t longest = 0;
  const json::Value* prompts = golden.find("prompts");
  if (prompts != nullptr && prompts->is_array()) {
    for (const json::Value& prompt : prompts->as_array())
      longest = std::max(longest, golden_ids(prompt, ids_field).size());
  }
  return static_cast<std::uint32_t>(
      std::clamp<std::size_t>(longest + kTokensMin / 2, kTokensMin, kTokensMax));
}

// The 8 best logits of every position of a prompt.
Status check_positions(std::span<const float> logits,
                       std::size_t vocab,
                       const json::Array& positions,
                       Verdict& verdict) {
  if (positions.size() * vocab != logits.size()) return mismatch("positions: their number differs");
  for (std::size_t p = 0; p < positions.size(); ++p) {
    const std::string what = "position " + std::to_string(p);
    const auto row = logits.subspan(p * vocab, vocab);
    const auto ids = golden_ids(positions[p], "top_ids");
    const auto values = golden_doubles(positions[p], "top_values");
    if (ids.empty() || ids.size() != values.size()) return mismatch(what + ": no top_ids");
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || static_cast<std::size_t>(ids[i]) >= vocab)
        return mismatch(what + ": an id is outside the vocabulary");
      COXSWAIN_RETURN_IF_ERROR(check_close(
          row[static_cast<std::size_t>(ids[i])], values[i], kTolerance, verdict.worst_logit, what));
    }
    const double expected = golden_number(positions[p], "logsumexp", NAN);
    COXSWAIN_RETURN_IF_ERROR(check_close(
        log_sum_exp(row), expected, kTolerance, verdict.worst_logprob, what + " logsumexp"));
  }
  return {};
}

// Middle layers, and law 7: every split of the layers gives the bits of the whole pass.
Status check_layers(ReferenceModel& loaded,
                    const json::Value& prompt,
                    std::span<const TokenId> ids,
                    std::span<const float> whole,
                    Verdict& verdict) {
  SingleSequence& sequence = *loaded.sequence;
  const std::uint32_t n_layers = loaded.model->info().n_layers;
  const auto done = static_cast<std::uint32_t>(golden_number(prompt, "layers_done", 0));
  const auto expected_hidden = golden_floats(prompt, "hidden_f32le_b64");
  const auto rope_length = static_cast<std::uint32_t>(ids.size());
  for (std::uint32_t split = 1; split < n_layers; ++split) {
    sequence.restart(rope_length);
    COXSWAIN_RETURN_IF_ERROR(sequence.feed_layers(ids, {0, split}));
    if (split == done) {
      COXSWAIN_RETURN_IF_ERROR(compare(sequence.hidden(ids.size()),
                                       expected_hidden,
                                       kTolerance,
                                       verdict.worst_hidden,
                                       "hidden states"));
    }
    COXSWAIN_RETURN_IF_ERROR(sequence.feed_layers(ids, {split, n_layers}));
    COXSWAIN_ASSIGN_OR_RETURN(const auto logits, sequence.logits(1));
    if (std::memcmp(logits.data(), whole.data(), whole.size_bytes()) != 0) {
      return mismatch("layers split at " + std::to_string(split) +
                      " give other bits than the whole pass");
    }
  }
  if (done == 0 && n_layers == 1) return {};  // what enters the only layer is no middle
  if (done == 0 || done >= n_layers || expected_hidden.empty())
    return mismatch("no hidden states to compare");
  sequence.restart(rope_length);
  // Fills the cache of the first layers.
  COXSWAIN_RETURN_IF_ERROR(sequence.feed_layers(ids, {0, done}));
  std::copy(expected_hidden.begin(), expected_hidden.end(), sequence.hidden(ids.size()).begin());
  COXSWAIN_RETURN_IF_ERROR(sequence.feed_layers(ids, {done, n_layers}));
  COXSWAIN_ASSIGN_OR_RETURN(const auto logits, sequence.logits(1));
  return compare(logits,
                 golden_floats(prompt, "last_logits_f32le_b64"),
                 kTolerance,
                 verdict.worst_logit,
                 "logits from given hidden states");
}

// Feeds the prompt, then one token at a time, as a server does.
Status check_greedy(ReferenceModel& loaded,
                    const json::Value& greedy,
                    std::span<const TokenId> prompt,
                    Verdict& verdict) {
  SingleSequence& sequence = *loaded.sequence;
  const auto ids = golden_ids(greedy, "ids");
  const auto gaps = golden_doubles(greedy, "gap");
  const auto logprobs = golden_doubles(greedy, "logprob");
  if (ids.empty() || gaps.size() != ids.size()) return mismatch("no greedy ids");
  sequence.restart(static_cast<std::uint32_t>(prompt.size() + ids.size()));
  COXSWAIN_RETURN_IF_ERROR(sequence.feed(prompt));
  for (std::size_t i = 0; i < ids.size() && gaps[i] >= kGapMin; ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(const auto logits, sequence.logits(1));
    const std::string what =
        "greedy step " + std::to_string(i) + " after " + std::to_string(prompt.size()) + " tokens";
    if (const TokenId got = argmax(logits); got != ids[i]) {
      return mismatch(what + ": id " + std::to_string(got) + ", expected " +
                      std::to_string(ids[i]) + " (gap " + std::to_string(gaps[i]) + ")");
    }
    if (i < logprobs.size()) {
      const double logprob = logits[static_cast<std::size_t>(ids[i])] - log_sum_exp(logits);
      COXSWAIN_RETURN_IF_ERROR(check_close(
          logprob, logprobs[i], kTolerance, verdict.worst_logprob, what + " log-probability"));
    }
    ++verdict.n_ids;
    if (i + 1 < ids.size()) COXSWAIN_RETURN_IF_ERROR(sequence.feed({&ids[i], 1}));
  }
  return {};
}

Status check_prompt(ReferenceModel& loaded,
                    const json::Value& golden,
                    const json::Value& prompt,
                    Verdict& verdict) {
  SingleSequence& sequence = *loaded.sequence;
  const auto ids = golden_ids(prompt, "ids");
  const std::string what = "prompt of " + std::to_string(ids.size());
  if (ids.empty() || ids.size() + kGreedySteps > loaded.tokens_max)
    return mismatch(what + ": length out of range");
  sequence.restart(static_cast<std::uint32_t>(ids.size()));
  COXSWAIN_RETURN_IF_ERROR(sequence.feed(ids));
  const json::Value* positions = prompt.find("positions");
  const bool all_rows = positions != nullptr && positions->is_array();
  COXSWAIN_ASSIGN_OR_RETURN(const auto logits, sequence.logits(all_rows ? ids.size() : 1));
  const std::size_t vocab = loaded.model->info().vocab_size;
  const auto last = std::span(logits).last(vocab);
  COXSWAIN_RETURN_IF_ERROR(compare(
      last, golden_floats(prompt, "last_logits_f32le_b64"), kTolerance, verdict.worst_logit, what));
  if (all_rows)
    COXSWAIN_RETURN_IF_ERROR(check_positions(logits, vocab, positions->as_array(), verdict));
  if (prompt.find("layers_done") != nullptr)
    COXSWAIN_RETURN_IF_ERROR(check_layers(loaded, prompt, ids, last, verdict));
  const json::Value* greedy = prompt.find("greedy");
  if (greedy == nullptr) return mismatch(what + ": no greedy answer");
  const std::uint32_t limit = loaded.model->info().rope_switch_length;
  if (flag_of(golden, "history_dependent_rope") && ids.size() + kGreedySteps > limit) {
    ++verdict.n_not_applicable;
    return {};
  }
  return check_greedy(loaded, *greedy, ids, verdict);
}

Result<Verdict> check_golden(const ConformanceOptions& options, const std::string& dir) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value golden,
                            json::parse_file(dir + "/golden.json", kGoldenBytesMax));
  COXSWAIN_ASSIGN_OR_RETURN(ReferenceModel loaded,
                            load_reference_model(options, dir, tokens_needed(golden, "ids")));
  const json::Value* prompts = golden.find("prompts");
  if (prompts == nullptr || !prompts->is_array() || prompts->as_array().empty())
    return mismatch("golden.json: no prompts");
  Verdict verdict;
  for (const json::Value& prompt : prompts->as_array()) {
    COXSWAIN_RETURN_IF_ERROR(check_prompt(loaded, golden, prompt, verdict));
  }
  const json::Value* texts = golden.find("texts");
  if (texts != nullptr && texts->is_array()) {
    for (const json::Value& text : texts->as_array()) {
      const json::Value* greedy = text.find("greedy");
      if (greedy != nullptr)
        COXSWAIN_RETURN_IF_ERROR(check_greedy(loaded, *greedy, golden_ids(text, "ids"), verdict));
    }
  }
  return verdict;
}

// ---- trained models ----

Status check_trained_prompt(ReferenceModel& loaded, const json::Value& prompt, Verdict& verdict) {
  SingleSequence& sequence = *loaded.sequence;
  const auto ids = golden_ids(prompt, "prompt_ids");
  const auto expected = golden_doubles(prompt, "prompt_logprobs");
  const auto greedy = golden_ids(prompt, "greedy_ids");
  const auto logprobs = golden_doubles(prompt, "greedy_logprobs");
  const auto gaps = golden_doubles(prompt, "gap_to_second");
  if (ids.empty() || expected.size() != ids.size() || greedy.size() != logprobs.size() ||
      gaps.size() != greedy.size() || ids.size() + greedy.size() > loaded.tokens_max) {
    return mismatch("golden.json: a prompt is not as its format says");
  }
  const std::size_t vocab = loaded.model->info().vocab_size;
  sequence.restart(static_cast<std::uint32_t>(ids.size() + greedy.size()));
  COXSWAIN_RETURN_IF_ERROR(sequence.feed(ids));
  COXSWAIN_ASSIGN_OR_RETURN(std::vector<float> logits, sequence.logits(ids.size()));
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const auto row = std::span(logits).subspan((i - 1) * vocab, vocab);
    const double logprob = row[static_cast<std::size_t>(ids[i])] - log_sum_exp(row);
    COXSWAIN_RETURN_IF_ERROR(check_close(logprob,
                                         expected[i],
                                         kTrainedTolerance,
                                         verdict.worst_logprob,
                                         "prompt token " + std::to_string(i)));
  }
  logits.erase(logits.begin(), logits.end() - static_cast<std::ptrdiff_t>(vocab));
  for (std::size_t i = 0; i < greedy.size() && gaps[i] >= kGapMin; ++i) {
    const std::string what = "greedy step " + std::to_string(i);
    if (argmax(logits) != greedy[i])
      return mismatch(what + ": id " + std::to_string(argmax(logits)) + ", expected " +
                      std::to_string(greedy[i]));
    const double logprob = logits[static_cast<std::size_t>(greedy[i])] - log_sum_exp(logits);
    COXSWAIN_RETURN_IF_ERROR(
        check_close(logprob, logprobs[i], kTrainedTolerance, verdict.worst_logprob, what));
    ++verdict.n_ids;
    COXSWAIN_RETURN_IF_ERROR(sequence.feed({&greedy[i], 1}));
    COXSWAIN_ASSIGN_OR_RETURN(logits, sequence.logits(1));
  }
  return {};
}

// The ids of the stories, as golden.json says: id 1, then those of the text, cut to 500 in all.
Result<std::vector<std::vector<TokenId>>> story_ids(const std::string& dir,
                                                    const json::Value& golden) {
  constexpr std::size_t kStoryTokensMax = 500;
  const std::string path = std::filesystem::path(dir).parent_path() / golden_string(golden, "text");
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value stories, json::parse_file(path, kGoldenBytesMax));
  COXSWAIN_ASSIGN_OR_RETURN(const auto tokenizer,
                            tokenizer::Tokenizer::load(dir + "/tokenizer.json"));
  if (!stories.is_array()) return mismatch(path + ": not a list");
  std::vector<std::vector<TokenId>> out;
  for (const json::Value& story : stories.as_array()) {
    if (!story.is_string()) return mismatch(path + ": holds something that is no text");
    tokenizer::EncodeOptions options;
    options.add_special_tokens = false;
    COXSWAIN_ASSIGN_OR_RETURN(const auto encoding, tokenizer->encode(story.as_string(), options));
    std::vector<TokenId>& ids = out.emplace_back(1, 1);
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    ids.resize(std::min(ids.size(), kStoryTokensMax));
  }
  return out;
}

// Mean negative log-likelihood of every id but the first of each story.
Result<double> mean_nll(SingleSequence& sequence,
                        std::size_t vocab,
                        const std::vector<std::vector<TokenId>>& stories) {
  double sum = 0.0;
  std::size_t n_tokens = 0;
  for (const std::vector<TokenId>& ids : stories) {
    sequence.restart(static_cast<std::uint32_t>(ids.size()));
    COXSWAIN_RETURN_IF_ERROR(sequence.feed(ids));
    COXSWAIN_ASSIGN_OR_RETURN(const auto logits, sequence.logits(ids.size()));
    for (std::size_t i = 1; i < ids.size(); ++i) {
      const auto row = std::span(logits).subspan((i - 1) * vocab, vocab);
      sum -= row[static_cast<std::size_t>(ids[i])] - log_sum_exp(row);
      ++n_tokens;
    }
  }
  return sum / static_cast<double>(n_tokens);
}

// How much the likelihood of stories may lose by a narrower cache, relatively; heads of few values give less to a mean.
struct CacheLimit {
  tensor::DType type;
  double few_values;  // up to 8 in a head
  double more_values;
};
constexpr CacheLimit kCacheLimits[] = {{tensor::DType::kBf16, 0.001, 0.001},
                                       {tensor::DType::kI8, 0.003, 0.001},
                                       {tensor::DType::kI4, 0.35, 0.01},
                                       {tensor::DType::kF8E4M3, 0.05, 0.005},
                                       {tensor::DType::kF8E5M2, 0.12, 0.05}};

Status check_stories(ReferenceModel& loaded,
                     const std::string& dir,
                     const json::Value& golden,
                     Verdict& verdict) {
  const json::Value* expected = golden.find("story_nll");
  if (expected == nullptr) return {};
  COXSWAIN_ASSIGN_OR_RETURN(const auto stories, story_ids(dir, *expected));
  std::size_t n_tokens = 0;
  for (const auto& ids : stories) n_tokens += ids.size() - 1;
  if (static_cast<double>(n_tokens) != golden_number(*expected, "tokens", -1.0)) {
    return mismatch("stories: " + std::to_string(n_tokens) + " tokens, expected another number");
  }
  const model::ModelInfo& info = loaded.model->info();
  COXSWAIN_ASSIGN_OR_RETURN(verdict.story_nll,
                            mean_nll(*loaded.sequence, info.vocab_size, stories));
  double worst = 0.0;
  COXSWAIN_RETURN_IF_ERROR(check_close(*verdict.story_nll,
                                       golden_number(*expected, "mean_nll", NAN),
                                       kTrainedTolerance,
                                       worst,
                                       "mean NLL of the stories"));
  const bool few = info.kv_layers.front().k_head_dim <= 8;
  for (const CacheLimit& limit : kCacheLimits) {
    const std::string name(tensor::name_of(limit.type));
    const auto tokens_max = static_cast<std::uint32_t>(loaded.tokens_max);
    COXSWAIN_ASSIGN_OR_RETURN(SingleSequence sequence,
                              SingleSequence::create(*loaded.model,
                                                     *loaded.exec,
                                                     {.tokens_max = tokens_max,
                                                      .chunk_tokens_max = tokens_max,
                                                      .logit_rows_max = tokens_max,
                                                      .kv_type = limit.type}));
    COXSWAIN_ASSIGN_OR_RETURN(const double nll, mean_nll(sequence, info.vocab_size, stories));
    const double more = nll / *verdict.story_nll - 1.0;
    char text[64];
    std::snprintf(text, sizeof(text), ", %s cache %+.3f %%", name.c_str(), 100.0 * more);
    verdict.story_nll_of_caches += text;
    if (more > (few ? limit.few_values : limit.more_values))
      return mismatch("mean NLL of the stories" + verdict.story_nll_of_caches);
  }
  return {};
}

Result<Verdict> check_trained(const ConformanceOptions& options, const std::string& dir) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value golden,
                            json::parse_file(dir + "/golden.json", kGoldenBytesMax));
  COXSWAIN_ASSIGN_OR_RETURN(
      ReferenceModel loaded,
      load_reference_model(options, dir, tokens_needed(golden, "prompt_ids")));
  const json::Value* prompts = golden.find("prompts");
  if (prompts == nullptr || !prompts->is_array() || prompts->as_array().empty())
    return mismatch("golden.json: no prompts");
  Verdict verdict;
  for (const json::Value& prompt : prompts->as_array()) {
    COXSWAIN_RETURN_IF_ERROR(check_trained_prompt(loaded, prompt, verdict));
  }
  COXSWAIN_RETURN_IF_ERROR(check_stories(loaded, dir, golden, verdict));
  return verdict;
}

void run_folder(const ConformanceOptions& options,
                const std::string& sub,
                Result<Verdict> (*check)(const ConformanceOptions&, const std::string&),
                ConformanceReport& report) {
  for (const std::string& name : conformance_cases(options, sub)) {
    const std::string dir = (std::filesystem::path(options.data_dir) / sub / name).string();
    if (!report.wants(name) || !std::filesystem::exists(dir + "/golden.json")) continue;
    const Result<Verdict> verdict = check(options, dir);
    if (verdict.ok()) {
      report.pass(name, verdict->text());
    } else if (verdict.status().code() == Code::kUnimplemented) {
      report.skip(name, verdict.status().message());
    } else {
      report.fail(name, verdict.status().message());
    }
  }
}

}  // namespace

ConformanceCounts run_models_conformance(const ConformanceOptions& options) {
  ConformanceReport report("models", options);
  run_folder(options, "goldens/models", check_golden, report);
  run_folder(options, "models", check_trained, report);
  return report.counts();
}

}  // namespace coxswain::conformance
