#include "chat/text_wrap.h"

#include <algorithm>
#include <string_view>

#include "chat/text_predicates.h"

namespace coxswain::chat {
namespace {

bool is_blank(char32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Cuts a paragraph where a line may end: around white space, behind hyphens between letters, and
// around dashes between words.
class Cutter {
 public:
  Cutter(const Text& text, bool at_hyphens) : text_(text), at_hyphens_(at_hyphens) {
    offsets_ = code_point_offsets(text.bytes);
    for (std::size_t i = 0; i + 1 < offsets_.size(); ++i) {
      std::size_t length = 0;
      characters_.push_back(code_point_at(text.bytes, offsets_[i], &length));
    }
  }

  std::vector<Text> run() const {
    std::vector<Text> out;
    for (std::size_t at = 0; at < characters_.size();) {
      const std::size_t end = chunk_end(at);
      out.push_back(text_.slice(offsets_[at], offsets_[end]));
      at = end;
    }
    return out;
  }

 private:
  bool is_word(std::size_t i) const {
    return i < characters_.size() && is_word_character(characters_[i]);
  }
  bool is_letter_at(std::size_t i) const { return is_word(i) && !is_decimal(characters_[i]); }
  bool is_hyphen(std::size_t i) const { return i < characters_.size() && characters_[i] == '-'; }
  bool ends_word(std::size_t i) const {
    return is_word(i) || (characters_[i] < 0x80 &&
                          std::string_view("!\"'&.,?").find(static_cast<char>(characters_[i])) !=
                              std::string_view::npos);
  }

  std::size_t dash_end(std::size_t at) const {
    while (is_hyphen(at)) ++at;
    return at;
  }
  // Two hyphens or more behind a word, in front of another.
  bool is_dash(std::size_t at) const {
    if (at == 0 || !is_hyphen(at) || !is_hyphen(at + 1)) return false;
    return ends_word(at - 1) && is_word(dash_end(at));
  }
  // A hyphen with two letters in front ("ab-", "a-b-") and a letter or two behind.
  bool is_hyphenation(std::size_t at) const {
    if (!is_hyphen(at) || at < 2 || !is_letter_at(at - 1)) return false;
    const bool letters =
        is_letter_at(at - 2) || (at >= 3 && is_hyphen(at - 2) && is_letter_at(at - 3));
    return letters && is_letter_at(at + 1) &&
           (is_letter_at(at + 2) || (is_hyphen(at + 2) && is_letter_at(at + 3)));
  }

  std::size_t chunk_end(std::size_t at) const {
    std::size_t end = at;
    if (is_blank(characters_[at])) {
      while (end < characters_.size() && is_blank(characters_[end])) ++end;
      return end;
    }
    if (at_hyphens_ && is_dash(at)) return dash_end(at);
    for (++end; end < characters_.size() && !is_blank(characters_[end]); ++end) {
      if (!at_hyphens_) continue;
      if (is_hyphenation(end)) return end + 1;
      if (is_dash(end)) return end;
    }
    return end;
  }

  const Text& text_;
  bool at_hyphens_;
  std::vector<std::size_t> offsets_;
  std::vector<char32_t> characters_;
};

bool is_white(const Text& chunk) {
  return strip(chunk, nullptr, Side::kBoth).empty();
}

// How many characters of a word that is too long go on this line: up to its last hyphen there.
std::size_t cut_of_long_word(const Text& word, std::size_t room, const WrapOptions& options) {
  if (!options.break_on_hyphens) return room;
  const auto offsets = code_point_offsets(word.bytes);
  if (offsets.size() - 1 <= room) return room;
  const std::string_view head = std::string_view(word.bytes).substr(0, offsets[room]);
  const std::size_t hyphen = head.rfind('-');
  if (hyphen == std::string_view::npos || hyphen == 0 ||
      head.substr(0, hyphen).find_first_not_of('-') == std::string_view::npos)
    return room;
  return count_code_points(head.substr(0, hyphen + 1));
}

}  // namespace

std::vector<Text> wrap_text(const Text& paragraph, const WrapOptions& options) {
  std::vector<Text> chunks = Cutter(paragraph, options.break_on_hyphens).run();
  std::ranges::reverse(chunks);  // the next one is the last
  std::vector<Text> lines;
  while (!chunks.empty()) {
    if (!lines.empty() && is_white(chunks.back())) chunks.pop_back();
    std::vector<Text> line;
    std::size_t used = 0;
    while (!chunks.empty()) {
      const std::size_t length = count_code_points(chunks.back().bytes);
      if (used + length > options.width) break;
      used += length;
      line.push_back(std::move(chunks.back()));
      chunks.pop_back();
    }
    if (!chunks.empty() && count_code_points(chunks.back().bytes) > options.width) {
      if (options.break_long_words) {
        const std::size_t n = cut_of_long_word(chunks.back(), options.width - used, options);
        const std::size_t cut = code_point_offsets(chunks.back().bytes)[n];
        line.push_back(chunks.back().slice(0, cut));
        chunks.back() = chunks.back().slice(cut, chunks.back().bytes.size());
      } else if (line.empty()) {
        line.push_back(std::move(chunks.back()));
        chunks.pop_back();
      }
    }
    if (!line.empty() && is_white(line.back())) line.pop_back();
    if (line.empty()) continue;
    lines.emplace_back();
    for (const Text& chunk : line) lines.back().append(chunk);
  }
  return lines;
}

}  // namespace coxswain::chat
