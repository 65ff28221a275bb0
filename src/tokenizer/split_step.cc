#include "tokenizer/split_step.h"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

std::string_view piece_text(const PreText& pre, PieceRange piece) {
  return pre.text.text().substr(piece.begin, piece.end - piece.begin);
}

// A part of a piece that a pattern matches, or the gap between two matches.
struct Part {
  PieceRange range;
  bool is_match = false;
};

// Turns the matches in `piece` into parts that cover it.
void append_parts(std::vector<Part>& parts,
                  PieceRange piece,
                  const std::vector<PieceRange>& matches,
                  bool invert) {
  std::uint32_t at = piece.begin;
  for (const PieceRange& match : matches) {
    if (at < match.begin) parts.push_back({{at, match.begin}, invert});
    parts.push_back({match, !invert});
    at = match.end;
  }
  if (at < piece.end) parts.push_back({{at, piece.end}, invert});
}

// A delimiter joins the part before it, unless that one is a delimiter too.
void merge_with_previous(const std::vector<Part>& parts, std::vector<PieceRange>& out) {
  const std::size_t first = out.size();
  bool previous_match = false;
  for (const Part& part : parts) {
    if (part.is_match && !previous_match && out.size() > first) {
      out.back().end = part.range.end;
    } else {
      out.push_back(part.range);
    }
    previous_match = part.is_match;
  }
}

void merge_with_next(const std::vector<Part>& parts, std::vector<PieceRange>& out) {
  const std::size_t first = out.size();
  bool previous_match = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->is_match && !previous_match && out.size() > first) {
      out.back().begin = part->range.begin;
    } else {
      out.push_back(part->range);
    }
    previous_match = part->is_match;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

void append_split(const std::vector<Part>& parts,
                  SplitBehavior behavior,
                  std::vector<PieceRange>& out) {
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const Part& part : parts) {
        if (!part.is_match) out.push_back(part.range);
      }
      return;
    case SplitBehavior::kIsolated:
      for (const Part& part : parts) out.push_back(part.range);
      return;
    case SplitBehavior::kContiguous:
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i > 0 && parts[i].is_match == parts[i - 1].is_match) {
          out.back().end = parts[i].range.end;
        } else {
          out.push_back(parts[i].range);
        }
      }
      return;
    case SplitBehavior::kMergedWithPrevious:
      return merge_with_previous(parts, out);
    case SplitBehavior::kMergedWithNext:
      return merge_with_next(parts, out);
  }
}

// What a Split step looks for.
class Matcher {
 public:
  virtual ~Matcher() = default;
  // Appends the matches in `text`, shifted by `base`.
  virtual Status find(std::string_view text,
                      std::uint32_t base,
                      std::vector<PieceRange>& out) const = 0;
};

class ScannerMatcher final : public Matcher {
 public:
  explicit ScannerMatcher(SplitScanner scanner) : scanner_(scanner) {}
  Status find(std::string_view text,
              std::uint32_t base,
              std::vector<PieceRange>& out) const override {
    scan(scanner_, text, base, out);
    return {};
  }

 private:
  SplitScanner scanner_;
};

class RegexMatcher final : public Matcher {
 public:
  explicit RegexMatcher(Regex regex) : regex_(std::move(regex)) {}
  Status find(std::string_view text,
              std::uint32_t base,
              std::vector<PieceRange>& out) const override {
    COXSWAIN_ASSIGN_OR_RETURN(const std::vector<TextSpan> found, regex_.find_all(text));
    for (const TextSpan& span : found)
      out.push_back({base + static_cast<std::uint32_t>(span.begin),
                     base + static_cast<std::uint32_t>(span.end)});
    return {};
  }

 private:
  Regex regex_;
};

class LiteralMatcher final : public Matcher {
 public:
  explicit LiteralMatcher(std::string literal) : literal_(std::move(literal)) {}
  Status find(std::string_view text,
              std::uint32_t base,
              std::vector<PieceRange>& out) const override {
    if (literal_.empty()) return {};
    for (std::size_t at = text.find(literal_); at != std::string_view::npos;
         at = text.find(literal_, at + literal_.size())) {
      const auto begin = base + static_cast<std::uint32_t>(at);
      out.push_back({begin, begin + static_cast<std::uint32_t>(literal_.size())});
    }
    return {};
  }

 private:
  std::string literal_;
};

// Every character of a kind is a match of its own.
class CharacterMatcher final : public Matcher {
 public:
  explicit CharacterMatcher(CharacterTest test) : test_(test) {}
  Status find(std::string_view text,
              std::uint32_t base,
              std::vector<PieceRange>& out) const override {
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = code_point_at(text, at);
      const auto begin = base + static_cast<std::uint32_t>(at);
      if (test_(c.value)) out.push_back({begin, begin + c.n_bytes});
      at += c.n_bytes;
    }
    return {};
  }

 private:
  CharacterTest test_;
};

// Runs of word characters, and runs of what is neither a word character nor white space.
class WordMatcher final : public Matcher {
 public:
  Status find(std::string_view text,
              std::uint32_t base,
              std::vector<PieceRange>& out) const override {
    const auto kind_at = [&](std::size_t at) {
      const char32_t c = code_point_at(text, at).value;
      return is_word_character(c) ? 1 : is_space(c) ? 0 : 2;
    };
    for (std::size_t at = 0; at < text.size();) {
      const int kind = kind_at(at);
      std::size_t end = at;
      while (end < text.size() && kind_at(end) == kind) end += code_point_at(text, end).n_bytes;
      if (kind != 0)
        out.push_back(
            {base + static_cast<std::uint32_t>(at), base + static_cast<std::uint32_t>(end)});
      at = end;
    }
    return {};
  }
};

class SplitStep final : public PreTokenizer {
 public:
  SplitStep(std::unique_ptr<Matcher> matcher, SplitRule rule)
      : matcher_(std::move(matcher)), rule_(rule) {}

  Status apply(PreText& pre) const override {
    std::vector<PieceRange> out;
    std::vector<PieceRange> matches;
    std::vector<Part> parts;
    out.reserve(std::max(pre.pieces.size() * 2, pre.text.size() / 4));
    for (const PieceRange& piece : pre.pieces) {
      matches.clear();
      COXSWAIN_RETURN_IF_ERROR(matcher_->find(piece_text(pre, piece), piece.begin, matches));
      parts.clear();
      append_parts(parts, piece, matches, rule_.invert);
      append_split(parts, rule_.behavior, out);
    }
    std::erase_if(out, [](PieceRange piece) { return piece.begin == piece.end; });
    pre.pieces = std::move(out);
    return {};
  }

 private:
  std::unique_ptr<Matcher> matcher_;
  SplitRule rule_;
};

// Isolated matches of a scanner, without the detour over parts.
class ScannerStep final : public PreTokenizer {
 public:
  explicit ScannerStep(SplitScanner scanner) : scanner_(scanner) {}

  Status apply(PreText& pre) const override {
    std::vector<PieceRange> matches;
    matches.reserve(pre.text.size() / 4 + 8);
    for (const PieceRange& piece : pre.pieces) {
      const std::size_t first = matches.size();
      scan(scanner_, piece_text(pre, piece), piece.begin, matches);
      fill_gaps(piece, first, matches);
    }
    pre.pieces = std::move(matches);
    return {};
  }

 private:
  // Adds what lies between the matches from index `first` on.
  static void fill_gaps(PieceRange piece, std::size_t first, std::vector<PieceRange>& matches) {
    std::uint32_t at = piece.begin;
    std::size_t n_gaps = 0;
    for (std::size_t i = first; i < matches.size(); ++i) {
      if (at < matches[i].begin) ++n_gaps;
      at = matches[i].end;
    }
    if (at < piece.end) ++n_gaps;
    if (n_gaps == 0) return;
    const std::vector<PieceRange> found(matches.begin() + static_cast<std::ptrdiff_t>(first),
                                        matches.end());
    matches.resize(first);
    at = piece.begin;
    for (const PieceRange& match : found) {
      if (at < match.begin) matches.push_back({at, match.begin});
      matches.push_back(match);
      at = match.end;
    }
    if (at < piece.end) matches.push_back({at, piece.end});
  }

  SplitScanner scanner_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_scanner_split(SplitScanner scanner) {
  return std::make_unique<ScannerStep>(scanner);
}

std::unique_ptr<PreTokenizer> make_scanner_split(SplitScanner scanner, SplitRule rule) {
  if (rule.behavior == SplitBehavior::kIsolated && !rule.invert) return make_scanner_split(scanner);
  return std::make_unique<SplitStep>(std::make_unique<ScannerMatcher>(scanner), rule);
}

std::unique_ptr<PreTokenizer> make_regex_split(Regex regex, SplitRule rule) {
  return std::make_unique<SplitStep>(std::make_unique<RegexMatcher>(std::move(regex)), rule);
}

std::unique_ptr<PreTokenizer> make_literal_split(std::string literal, SplitRule rule) {
  return std::make_unique<SplitStep>(std::make_unique<LiteralMatcher>(std::move(literal)), rule);
}

std::unique_ptr<PreTokenizer> make_character_split(CharacterTest test, SplitBehavior behavior) {
  return std::make_unique<SplitStep>(std::make_unique<CharacterMatcher>(test),
                                     SplitRule{behavior, false});
}

std::unique_ptr<PreTokenizer> make_word_split() {
  return std::make_unique<SplitStep>(std::make_unique<WordMatcher>(),
                                     SplitRule{SplitBehavior::kRemoved, true});
}

}  // namespace coxswain::tokenizer
