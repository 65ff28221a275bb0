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

bool is_white(std::string_view chunk) {
  for (std::size_t at = 0; at < chunk.size();) {
    std::size_t length = 0;
    if (!is_space(code_point_at(chunk, at, &length))) return false;
    at += length;
  }
  return true;
}

// What is left of a chunk, so that a long word is not copied for each line it fills.
struct Chunk {
  Text text;
  std::size_t begin = 0;   // bytes that went on earlier lines
  std::size_t length = 0;  // characters from there on

  std::string_view rest() const { return std::string_view(text.bytes).substr(begin); }
  // The next `n` bytes.
  Text take(std::size_t n) {
    Text out = text.slice(begin, begin + n);
    begin += n;
    length -= count_code_points(out.bytes);
    return out;
  }
};

// How many bytes of a word that is too long go on this line: `room` characters, or up to its last
// hyphen there.
std::size_t cut_of_long_word(std::string_view word, std::size_t room, const WrapOptions& options) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < room; ++i) end = next_code_point(word, end);
  if (!options.break_on_hyphens) return end;
  const std::string_view head = word.substr(0, end);
  const std::size_t hyphen = head.rfind('-');
  if (hyphen == std::string_view::npos || hyphen == 0 ||
      head.substr(0, hyphen).find_first_not_of('-') == std::string_view::npos)
    return end;
  return hyphen + 1;
}

}  // namespace

std::vector<Text> wrap_text(const Text& paragraph, const WrapOptions& options) {
  std::vector<Chunk> chunks;  // the next one is the last
  for (Text& text : Cutter(paragraph, options.break_on_hyphens).run()) {
    const std::size_t length = count_code_points(text.bytes);
    chunks.push_back({std::move(text), 0, length});
  }
  std::ranges::reverse(chunks);
  std::vector<Text> lines;
  while (!chunks.empty()) {
    if (!lines.empty() && is_white(chunks.back().rest())) chunks.pop_back();
    std::vector<Text> line;
    std::size_t used = 0;
    while (!chunks.empty() && used + chunks.back().length <= options.width) {
      used += chunks.back().length;
      line.push_back(chunks.back().take(chunks.back().rest().size()));
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().length > options.width) {
      Chunk& word = chunks.back();
      if (options.break_long_words) {
        line.push_back(word.take(cut_of_long_word(word.rest(), options.width - used, options)));
      } else if (line.empty()) {
        line.push_back(word.take(word.rest().size()));
        chunks.pop_back();
      }
    }
    if (!line.empty() && is_white(line.back().bytes)) line.pop_back();
    if (line.empty()) continue;
    lines.emplace_back();
    for (const Text& chunk : line) lines.back().append(chunk);
  }
  return lines;
}

}  // namespace coxswain::chat
