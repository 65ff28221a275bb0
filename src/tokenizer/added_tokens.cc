#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

bool touches(TextSpan span, std::span<const TextSpan> untrusted) {
  const auto after =
      std::partition_point(untrusted.begin(), untrusted.end(), [&](const TextSpan& other) {
        return other.end <= span.begin;
      });
  return after != untrusted.end() && after->begin < span.end;
}

bool is_inside_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word_character(code_point_before(text, begin).value)) return true;
  return end < text.size() && is_word_character(code_point_at(text, end).value);
}

// Where the blanks before `at` begin, but not before `first`.
std::size_t blanks_before(std::string_view text, std::size_t at, std::size_t first) {
  while (at > first) {
    const CodePoint c = code_point_before(text, at);
    if (!is_space(c.value)) break;
    at -= c.n_bytes;
  }
  return std::max(at, first);
}

std::size_t blanks_after(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const CodePoint c = code_point_at(text, at);
    if (!is_space(c.value)) break;
    at += c.n_bytes;
  }
  return at;
}

}  // namespace

void AddedTokens::add(AddedToken token) {
  id_min_ = std::min(id_min_, token.id);
  id_max_ = std::max(id_max_, token.id);
  const auto known = by_content_.find(token.content);
  if (known != by_content_.end()) {
    by_id_.erase(tokens_[known->second].id);
    by_id_[token.id] = known->second;
    tokens_[known->second] = std::move(token);
    return;
  }
  by_id_[token.id] = tokens_.size();
  by_content_[token.content] = tokens_.size();
  tokens_.push_back(std::move(token));
}

Status AddedTokens::prepare(const Normalizer* normalizer) {
  std::vector<std::pair<std::string_view, std::int32_t>> raw;
  std::vector<std::pair<std::string_view, std::int32_t>> changed;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view content = tokens_[i].content;
    const auto index = static_cast<std::int32_t>(i);
    if (content.empty() || !tokens_[i].is_matched) continue;
    if (!tokens_[i].normalized) {
      raw.emplace_back(content, index);
      continue;
    }
    AlignedText text(content, 0);
    if (normalizer != nullptr) COXSWAIN_RETURN_IF_ERROR(normalizer->apply(text));
    tokens_[i].normal_form = text.text();
    if (!text.empty()) changed.emplace_back(tokens_[i].normal_form, index);
  }
  has_special_normal_forms_ = std::any_of(changed.begin(), changed.end(), [&](const auto& entry) {
    return tokens_[static_cast<std::size_t>(entry.second)].special;
  });
  raw_ = ByteTrie(std::move(raw));
  normalized_ = ByteTrie(std::move(changed));
  return {};
}

Status AddedTokens::split(AlignedText input,
                          const Normalizer* normalizer,
                          std::span<const TextSpan> untrusted,
                          Visit visit) const {
  if (normalizer == nullptr && normalized_.empty())
    return cut(raw_, std::move(input), untrusted, visit);
  return cut(raw_, std::move(input), untrusted, [&](TextSection section) -> Status {
    if (section.token) return visit(std::move(section));
    if (normalizer != nullptr) COXSWAIN_RETURN_IF_ERROR(normalizer->apply(section.text));
    return cut(normalized_, std::move(section.text), untrusted, visit);
  });
}

std::optional<std::pair<std::size_t, std::size_t>> AddedTokens::longest_at(
    const ByteTrie& trie,
    const AlignedText& text,
    std::size_t at,
    std::span<const TextSpan> untrusted) const {
  std::optional<std::pair<std::size_t, std::size_t>> best;  // length, index
  trie.visit_prefixes(text.text().substr(at), [&](std::size_t n_bytes, std::int32_t index) {
    const auto token = static_cast<std::size_t>(index);
    if (tokens_[token].special && !untrusted.empty() &&
        touches(text.origin(at, at + n_bytes), untrusted))
      return;
    best = {n_bytes, token};
  });
  return best;
}

Status AddedTokens::cut(const ByteTrie& trie,
                        AlignedText text,
                        std::span<const TextSpan> untrusted,
                        Visit visit) const {
  if (trie.empty()) return text.empty() ? Status() : visit({std::nullopt, {}, std::move(text)});
  const std::string_view source = text.text();
  std::size_t done = 0;        // what lies before has been visited
  std::size_t blanks_end = 0;  // of those that a token took; others can lie among them
  const auto add_text = [&](std::size_t end) -> Status {
    if (done >= end) return {};
    if (done == 0 && end == source.size()) return visit({std::nullopt, {}, std::move(text)});
    return visit({std::nullopt, {}, text.slice(done, end)});
  };
  for (std::size_t at = 0; at < source.size();) {
    if (!trie.may_start(source[at])) {
      ++at;
      continue;
    }
    const auto found = longest_at(trie, text, at, untrusted);
    if (!found) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + found->first;
    at = end;
    const AddedToken& token = tokens_[found->second];
    if (token.single_word && is_inside_word(source, begin, end)) continue;
    if (token.lstrip) begin = blanks_before(source, begin, done);
    if (token.rstrip && end >= blanks_end) blanks_end = blanks_after(source, end);
    if (token.rstrip) end = blanks_end;
    if (begin >= end) continue;  // another token took all of it
    COXSWAIN_RETURN_IF_ERROR(add_text(begin));
    COXSWAIN_RETURN_IF_ERROR(visit({token.id, text.origin(begin, end), AlignedText()}));
    done = end;
  }
  return add_text(source.size());
}

const AddedToken* AddedTokens::find(TokenId id) const {
  if (id < id_min_ || id > id_max_) return nullptr;
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace coxswain::tokenizer
