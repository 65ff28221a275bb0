#include "tokenizer/split_scanner.h"

#include <array>
#include <utility>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

struct KnownPattern {
  std::string_view pattern;
  SplitScanner scanner;
};

// The first spelling of each scanner is the one that tests use.
constexpr std::array kKnownPatterns{
    KnownPattern{R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                 SplitScanner::kGpt2},
    KnownPattern{R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                 SplitScanner::kGpt2},
    KnownPattern{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        SplitScanner::kCl100k},
    KnownPattern{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        SplitScanner::kCl100kOneDigit},
    KnownPattern{
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        SplitScanner::kO200k},
    KnownPattern{
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        SplitScanner::kTekken},
    KnownPattern{"[!\"#$%&'()*+,\\-./"
                 ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                 "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
                 SplitScanner::kDeepseekWords},
    KnownPattern{R"(\p{N}{1,3})", SplitScanner::kThreeNumbers},
    KnownPattern{"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", SplitScanner::kCjkRuns},
    KnownPattern{"[0-9][0-9][0-9]", SplitScanner::kThreeAsciiDigits},
};

constexpr std::uint16_t kLetterOrNumber = kClassLetter | kClassNumber;
constexpr std::uint16_t kWordLike = kClassSpace | kClassLetter | kClassNumber;
constexpr std::uint16_t kBothCases = kClassOtherLetter | kClassMark;
constexpr std::uint16_t kUpperRun = kClassUpper | kBothCases;
constexpr std::uint16_t kLowerRun = kClassLower | kBothCases;

// What the rules below look at: a character, its class and where the next one begins.
struct Seen {
  char32_t value = 0;
  std::uint16_t classes = 0;  // 0 at the end of the text
  std::size_t next = 0;
};

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text), ascii_(ascii_classes()) {}

  std::size_t size() const { return text_.size(); }

  Seen see(std::size_t at) const {
    if (at >= text_.size()) return {0, 0, at};
    const auto first = static_cast<unsigned char>(text_[at]);
    if (first < 0x80) return {first, ascii_[first], at + 1};
    const CodePoint c = code_point_at(text_, at);
    return {c.value, char_class_slow(c.value), at + c.n_bytes};
  }

  // End of the run of characters with any of `classes` from `at` on.
  std::size_t run(std::size_t at, std::uint16_t classes) const {
    while (at < text_.size()) {
      const Seen c = see(at);
      if ((c.classes & classes) == 0) break;
      at = c.next;
    }
    return at;
  }

  // End of the run of characters with none of `classes`.
  std::size_t run_without(std::size_t at, std::uint16_t classes) const {
    while (at < text_.size()) {
      const Seen c = see(at);
      if ((c.classes & classes) != 0) break;
      at = c.next;
    }
    return at;
  }

  // End of the run of the given ASCII characters.
  std::size_t run_of(std::size_t at, std::string_view characters) const {
    while (at < text_.size() && characters.find(text_[at]) != std::string_view::npos) ++at;
    return at;
  }

  // End of at most `n_max` numbers.
  std::size_t numbers(std::size_t at, int n_max) const {
    for (int n = 0; n < n_max; ++n) {
      const Seen c = see(at);
      if ((c.classes & kClassNumber) == 0) break;
      at = c.next;
    }
    return at;
  }

  bool is_line_break(std::size_t at) const {
    return at < text_.size() && (text_[at] == '\r' || text_[at] == '\n');
  }

  // End of a contraction ('s, 't, 're, 've, 'm, 'll, 'd) at `at`; `at` if there is none. Without
  // regard to case, U+017F (long s) is an s.
  std::size_t contraction(std::size_t at, bool any_case) const {
    if (at + 1 >= text_.size() || text_[at] != '\'') return at;
    const auto letter = [&](std::size_t i) {
      if (i >= text_.size()) return '\0';
      const char c = text_[i];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    };
    const char first = letter(at + 1);
    const char second = letter(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if (any_case && text_.substr(at + 1).starts_with("\xC5\xBF")) return at + 3;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
        (first == 'l' && second == 'l'))
      return at + 3;
    return at;
  }

  // End of what \s*[\r\n]+|\s+(?!\S)|\s+ matches at `at`, which is white space. Without
  // `breaks_lines` the first alternative does not exist.
  std::size_t blanks(std::size_t at, bool breaks_lines) const {
    std::size_t end = at;
    std::size_t last = at;         // where the last character of the run begins
    std::size_t after_break = at;  // end of the last line break
    while (end < text_.size()) {
      const Seen c = see(end);
      if ((c.classes & kClassSpace) == 0) break;
      last = end;
      end = c.next;
      if (c.value == '\r' || c.value == '\n') after_break = end;
    }
    if (breaks_lines && after_break > at) return after_break;
    return end == text_.size() || last == at ? end : last;
  }

  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
  const std::array<std::uint16_t, 128>& ascii_;
};

// Each rule set returns the end of the match at `at`, or `at` if nothing matches there.

std::size_t match_gpt2(const Cursor& cursor, std::size_t at) {
  const Seen c = cursor.see(at);
  if ((c.classes & kClassLetter) != 0) return cursor.run(c.next, kClassLetter);
  if (c.value == '\'') {
    const std::size_t end = cursor.contraction(at, false);
    if (end != at) return end;
  }
  const Seen word = c.value == ' ' ? cursor.see(c.next) : c;
  if (word.classes != 0 && (word.classes & kClassSpace) == 0) {
    if ((word.classes & kClassLetter) != 0) return cursor.run(word.next, kClassLetter);
    if ((word.classes & kClassNumber) != 0) return cursor.run(word.next, kClassNumber);
    return cursor.run_without(word.next, kWordLike);
  }
  return cursor.blanks(at, false);
}

std::size_t match_cl100k(const Cursor& cursor, std::size_t at, int digits_max) {
  const Seen c = cursor.see(at);
  if ((c.classes & kClassLetter) != 0) return cursor.run(c.next, kClassLetter);
  if (c.value == '\'') {
    const std::size_t end = cursor.contraction(at, true);
    if (end != at) return end;
  }
  if ((c.classes & kClassNumber) != 0) return cursor.numbers(at, digits_max);
  const Seen next = cursor.see(c.next);
  if (c.value != '\r' && c.value != '\n' && (next.classes & kClassLetter) != 0)
    return cursor.run(next.next, kClassLetter);
  const Seen word = c.value == ' ' ? next : c;
  if (word.classes != 0 && (word.classes & kWordLike) == 0)
    return cursor.run_of(cursor.run_without(word.next, kWordLike), "\r\n");
  return cursor.blanks(at, true);
}

// [upper]*[lower]+ at `at`, where marks and letters without case are both; `at` if there is none.
std::size_t match_capitalised(const Cursor& cursor, std::size_t at) {
  std::size_t after_both = at;  // end of the last character that is both
  std::size_t end = at;
  while (end < cursor.size()) {
    const Seen c = cursor.see(end);
    if ((c.classes & kUpperRun) == 0) {
      if ((c.classes & kClassLower) != 0) return cursor.run(c.next, kLowerRun);
      break;
    }
    end = c.next;
    if ((c.classes & kBothCases) != 0) after_both = end;
  }
  return after_both;
}

// The two word alternatives of o200k without the contraction; `at` if neither matches.
std::size_t match_cased_word(const Cursor& cursor, std::size_t at) {
  const Seen c = cursor.see(at);
  const bool may_lead = (c.classes & kLetterOrNumber) == 0 && c.value != '\r' && c.value != '\n';
  if (may_lead) {
    const std::size_t end = match_capitalised(cursor, c.next);
    if (end != c.next) return end;
  }
  const std::size_t end = match_capitalised(cursor, at);
  if (end != at) return end;
  if (may_lead) {
    const std::size_t upper = cursor.run(c.next, kUpperRun);
    if (upper != c.next) return upper;
  }
  return cursor.run(at, kUpperRun);
}

std::size_t match_o200k(const Cursor& cursor, std::size_t at, int digits_max, bool contracts) {
  const std::size_t word_end = match_cased_word(cursor, at);
  if (word_end != at) return contracts ? cursor.contraction(word_end, true) : word_end;
  const Seen c = cursor.see(at);
  if ((c.classes & kClassNumber) != 0) return cursor.numbers(at, digits_max);
  const Seen word = c.value == ' ' ? cursor.see(c.next) : c;
  if (word.classes != 0 && (word.classes & kWordLike) == 0)
    return cursor.run_of(cursor.run_without(word.next, kWordLike), "\r\n/");
  return cursor.blanks(at, true);
}

bool is_ascii_letter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::size_t match_deepseek_words(const Cursor& cursor, std::size_t at) {
  constexpr std::uint16_t kWord = kClassLetter | kClassMark;
  constexpr std::uint16_t kSign = kClassPunctuation | kClassSymbol;
  const Seen c = cursor.see(at);
  if ((c.classes & kWord) != 0) return cursor.run(c.next, kWord);
  const Seen next = cursor.see(c.next);
  if ((c.classes & kSign) != 0) {
    if (c.value < 0x80 && is_ascii_letter(next.value)) {
      std::size_t end = next.next;
      while (end < cursor.size() && is_ascii_letter(static_cast<unsigned char>(cursor.text()[end])))
        ++end;
      return end;
    }
    return cursor.run_of(cursor.run(c.next, kSign), "\r\n");
  }
  if (c.value != '\r' && c.value != '\n' && (next.classes & kWord) != 0)
    return cursor.run(next.next, kWord);
  if (c.value == ' ' && (next.classes & kSign) != 0)
    return cursor.run_of(cursor.run(next.next, kSign), "\r\n");
  return (c.classes & kClassSpace) != 0 ? cursor.blanks(at, true) : at;
}

std::size_t match_cjk_run(const Cursor& cursor, std::size_t at) {
  while (at < cursor.size()) {
    const Seen c = cursor.see(at);
    if (!((c.value >= 0x4E00 && c.value <= 0x9FA5) || (c.value >= 0x3040 && c.value <= 0x30FF)))
      break;
    at = c.next;
  }
  return at;
}

std::size_t match_three_digits(const Cursor& cursor, std::size_t at) {
  const std::string_view text = cursor.text();
  for (std::size_t i = at; i < at + 3; ++i) {
    if (i >= text.size() || text[i] < '0' || text[i] > '9') return at;
  }
  return at + 3;
}

// Where a scan goes on, and how many matches it may add.
struct ScanPart {
  std::uint32_t base = 0;
  std::size_t at = 0;
  std::size_t n_max = 0;
};

template <typename Match>
std::size_t scan_with(Match match,
                      std::string_view text,
                      const ScanPart& part,
                      std::vector<PieceRange>& out) {
  const Cursor cursor(text);
  const std::size_t size_max = out.size() + part.n_max;
  std::size_t at = part.at;
  while (at < text.size() && out.size() < size_max) {
    const std::size_t end = match(cursor, at);
    if (end == at) {
      at = cursor.see(at).next;
      continue;
    }
    out.push_back(
        {part.base + static_cast<std::uint32_t>(at), part.base + static_cast<std::uint32_t>(end)});
    at = end;
  }
  return at;
}

}  // namespace

std::optional<SplitScanner> known_scanner(std::string_view pattern) {
  for (const KnownPattern& known : kKnownPatterns) {
    if (known.pattern == pattern) return known.scanner;
  }
  return std::nullopt;
}

std::string_view scanner_pattern(SplitScanner scanner) {
  for (const KnownPattern& known : kKnownPatterns) {
    if (known.scanner == scanner) return known.pattern;
  }
  return {};
}

std::size_t scan_some(SplitScanner scanner,
                      std::string_view text,
                      std::uint32_t base,
                      std::size_t at,
                      std::size_t n_max,
                      std::vector<PieceRange>& out) {
  const ScanPart part{base, at, n_max};
  switch (scanner) {
    case SplitScanner::kGpt2:
      return scan_with(match_gpt2, text, part, out);
    case SplitScanner::kCl100k:
      return scan_with(
          [](const Cursor& c, std::size_t i) { return match_cl100k(c, i, 3); }, text, part, out);
    case SplitScanner::kCl100kOneDigit:
      return scan_with(
          [](const Cursor& c, std::size_t i) { return match_cl100k(c, i, 1); }, text, part, out);
    case SplitScanner::kO200k:
      return scan_with([](const Cursor& c, std::size_t i) { return match_o200k(c, i, 3, true); },
                       text,
                       part,
                       out);
    case SplitScanner::kTekken:
      return scan_with([](const Cursor& c, std::size_t i) { return match_o200k(c, i, 1, false); },
                       text,
                       part,
                       out);
    case SplitScanner::kDeepseekWords:
      return scan_with(match_deepseek_words, text, part, out);
    case SplitScanner::kThreeNumbers:
      return scan_with(
          [](const Cursor& c, std::size_t i) { return c.numbers(i, 3); }, text, part, out);
    case SplitScanner::kCjkRuns:
      return scan_with(match_cjk_run, text, part, out);
    case SplitScanner::kThreeAsciiDigits:
      return scan_with(match_three_digits, text, part, out);
  }
  return text.size();
}

}  // namespace coxswain::tokenizer
