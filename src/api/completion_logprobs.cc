#include "api/completion_logprobs.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "json/json.h"

namespace coxswain::api {

void CompletionLogprobs::add_prompt(std::span<const PromptToken> prompt,
                                    std::span<const std::string> pieces) {
  assert(pieces.size() == prompt.size());
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const std::string& text = pieces[i].empty() ? prompt[i].text : pieces[i];
    append(text, prompt[i].logprob, base::count_characters(pieces[i]));
    append_top(prompt[i].id, text, prompt[i].logprob, prompt[i].alternatives);
  }
}

void CompletionLogprobs::add(std::span<const OutputToken> tokens) {
  for (const OutputToken& token : tokens) {
    append(token.text, token.logprob, token.special ? 0 : base::count_characters(token.text));
    append_top(token.id, token.text, token.logprob, token.alternatives);
  }
}

void CompletionLogprobs::append(std::string_view text, float logprob, std::size_t n_characters) {
  if (!tokens_.empty()) {
    for (std::string* list : {&tokens_, &logprobs_, &top_, &offsets_}) *list += ',';
  }
  json::append_quoted(tokens_, text);
  json::append_real32(logprobs_, logprob);
  json::append_unsigned(offsets_, offset_);
  offset_ += n_characters;
}

void CompletionLogprobs::append_top(TokenId id,
                                    std::string_view text,
                                    float logprob,
                                    std::span<const TokenAlternative> alternatives) {
  const bool unknown = n_top_ > 0 && alternatives.empty();
  if (unknown || std::isnan(logprob)) {
    top_ += "null";
    return;
  }
  std::vector<std::pair<std::string_view, float>> entries;  // best first
  const auto add = [&](std::string_view name, float value) {
    const auto same = [&](const auto& entry) { return entry.first == name; };
    if (std::none_of(entries.begin(), entries.end(), same)) entries.emplace_back(name, value);
  };
  bool has_token = false;
  for (const auto& other : alternatives.first(std::min<std::size_t>(n_top_, alternatives.size()))) {
    has_token = has_token || other.id == id;
    add(other.text, other.id == id ? logprob : other.logprob);
  }
  if (!has_token) add(text, logprob);
  top_ += '{';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) top_ += ',';
    json::append_quoted(top_, entries[i].first);
    top_ += ':';
    json::append_real32(top_, entries[i].second);
  }
  top_ += '}';
}

std::string CompletionLogprobs::take() {
  std::string out = R"({"tokens":[)";
  out += std::exchange(tokens_, {});
  out += R"(],"token_logprobs":[)";
  out += std::exchange(logprobs_, {});
  out += R"(],"top_logprobs":[)";
  out += std::exchange(top_, {});
  out += R"(],"text_offset":[)";
  out += std::exchange(offsets_, {});
  out += "]}";
  return out;
}

}  // namespace coxswain::api
