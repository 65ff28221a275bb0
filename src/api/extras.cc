#include "api/extras.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "api/answer.h"
#include "json/json.h"

namespace coxswain::api {
namespace {

// ,"ID":{...}
void append_candidate(std::string& out,
                      TokenId id,
                      float logprob,
                      std::optional<std::size_t> rank,
                      std::string_view text) {
  if (out.back() != '{') out += ',';
  out += '"';
  json::append_integer(out, id);
  out += R"(":{"logprob":)";
  json::append_real32(out, logprob);
  out += R"(,"rank":)";
  if (rank) {
    json::append_unsigned(out, *rank);
  } else {
    out += "null";
  }
  out += R"(,"decoded_token":)";
  json::append_quoted(out, text);
  out += '}';
}

// The token itself comes first, then the alternatives, best first.
void append_prompt_token(std::string& out, const PromptToken& token, std::size_t n_alternatives) {
  if (std::isnan(token.logprob)) {  // nothing stands before it
    out += "null";
    return;
  }
  const auto shown =
      std::span(token.alternatives).first(std::min(n_alternatives, token.alternatives.size()));
  const auto own = std::ranges::find(shown, token.id, &TokenAlternative::id);
  std::optional<std::size_t> rank;
  if (own != shown.end()) rank = static_cast<std::size_t>(own - shown.begin()) + 1;
  out += '{';
  append_candidate(out, token.id, token.logprob, rank, token.text);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (shown[i].id != token.id)
      append_candidate(out, shown[i].id, shown[i].logprob, i + 1, shown[i].text);
  }
  out += '}';
}

// "NAME":[1,2]
void append_ids(std::string& out, std::string_view name, const auto& tokens, const auto& id_of) {
  json::append_quoted(out, name);
  out += ":[";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    json::append_integer(out, id_of(tokens[i]));
  }
  out += ']';
}

double milliseconds(TimePoint begin, TimePoint end) {
  return std::max(0.0, std::chrono::duration<double, std::milli>(end - begin).count());
}

// ,"NAME_n":...,"NAME_ms":...,"NAME_per_token_ms":...,"NAME_per_second":...   0 where there is nothing to divide by.
void append_phase(std::string& out, std::string_view name, std::uint64_t n_tokens, double ms) {
  const auto n = static_cast<double>(n_tokens);
  const auto append = [&](std::string_view figure, double value) {
    out += ",\"";
    out += name;
    out += figure;
    out += "\":";
    json::append_real32(out, static_cast<float>(value));
  };
  out += ",\"";
  out += name;
  out += "_n\":";
  json::append_unsigned(out, n_tokens);
  append("_ms", ms);
  append("_per_token_ms", n_tokens > 0 ? ms / n : 0.0);
  append("_per_second", ms > 0 ? n * 1e3 / ms : 0.0);
}

}  // namespace

void append_token_ids(std::string& out, const Extras& extras, std::span<const OutputToken> tokens) {
  if (!extras.token_ids) return;
  out += ',';
  append_ids(out, "token_ids", tokens, [](const OutputToken& token) { return token.id; });
}

void append_prompt(std::string& out,
                   const Extras& extras,
                   std::span<const PromptToken> prompt,
                   std::span<const TokenId> ids) {
  if (extras.n_prompt_logprobs) {
    out += R"(,"prompt_logprobs":[)";
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      if (i > 0) out += ',';
      append_prompt_token(out, prompt[i], *extras.n_prompt_logprobs);
    }
    out += ']';
  }
  if (!extras.token_ids) return;
  out += ',';
  append_ids(out, "prompt_token_ids", ids, [](TokenId id) { return id; });
}

void append_timings(std::string& out,
                    const Extras& extras,
                    std::span<const SequenceAnswer> sequences,
                    std::size_t per_prompt) {
  if (!extras.timings) return;
  std::uint64_t n_cached = 0;
  std::uint64_t n_computed = 0;
  std::uint64_t n_generated = 0;
  std::uint64_t n_drafts = 0;
  std::uint64_t n_drafts_accepted = 0;
  double prompt_ms = 0;
  double generation_ms = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const SequenceAnswer& sequence = sequences[i];
    if (i % per_prompt == 0) {
      n_cached += sequence.n_cached;
      n_computed += sequence.n_prompt - std::min(sequence.n_prompt, sequence.n_cached);
    }
    n_generated += sequence.n_generated;
    n_drafts += sequence.n_drafts;
    n_drafts_accepted += sequence.n_drafts_accepted;
    prompt_ms = std::max(prompt_ms, milliseconds(sequence.scheduled_at, sequence.first_token_at));
    generation_ms =
        std::max(generation_ms, milliseconds(sequence.first_token_at, sequence.finished_at));
  }
  out += R"(,"timings":{"cache_n":)";
  json::append_unsigned(out, n_cached);
  append_phase(out, "prompt", n_computed, prompt_ms);
  append_phase(out, "predicted", n_generated, generation_ms);
  if (n_drafts > 0) {
    out += R"(,"draft_n":)";
    json::append_unsigned(out, n_drafts);
    out += R"(,"draft_n_accepted":)";
    json::append_unsigned(out, n_drafts_accepted);
  }
  out += '}';
}

}  // namespace coxswain::api
