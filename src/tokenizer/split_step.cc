#include "tokenizer/split_step.h"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

std::string_view piece_text(std::string_view text, PieceRange piece) {
  return text.substr(piece.begin, piece.end - piece.begin);
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
  // Appends about `n_max` matches in `text`, shifted by `base`, from byte `at` on, and moves `at`
  // to where the search has to go on: the end of the last match, or the text's end.
  virtual Status find(std::string_view text,
                      std::uint32_t base,
                      std::size_t n_max,
                      std::size_t& at,
                      std::vector<PieceRange>& out) const = 0;
};

class ScannerMatcher final : public Matcher {
 public:
  explicit ScannerMatcher(SplitScanner scanner) : scanner_(scanner) {}
  Status find(std::string_view text,
              std::uint32_t base,
              std::size_t n_max,
              std::size_t& at,
              std::vector<PieceRange>& out) const override {
    at = scan_some(scanner_, text, base, at, n_max, out);
    return {};
  }

 private:
  SplitScanner scanner_;
};

class RegexMatcher final : public Matcher {
 public:
  explicit RegexMatcher(Regex regex) : regex_(std::move(regex)) {}
  // What lies behind a place can count for a match there: all at once.
  Status find(std::string_view text,
              std::uint32_t base,
              std::size_t,
              std::size_t& at,
              std::vector<PieceRange>& out) const override {
    COXSWAIN_ASSIGN_OR_RETURN(const std::vector<TextSpan> found, regex_.find_all(text));
    for (const TextSpan& span : found)
      out.push_back({base + static_cast<std::uint32_t>(span.begin),
                     base + static_cast<std::uint32_t>(span.end)});
    at = text.size();
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
              std::size_t n_max,
              std::size_t& at,
              std::vector<PieceRange>& out) const override {
    for (std::size_t n = 0; n < n_max; ++n) {
      const std::size_t found = literal_.empty() ? std::string_view::npos : text.find(literal_, at);
      if (found == std::string_view::npos) {
        at = text.size();
        break;
      }
      at = found + literal_.size();
      out.push_back(
          {base + static_cast<std::uint32_t>(found), base + static_cast<std::uint32_t>(at)});
    }
    return {};
  }

 private:
  std::string literal_;
};

// A literal with what goes up to the next one, or with what lies before it: the behaviours
// MergedWithNext and MergedWithPrevious.
class LiteralPieces final : public Matcher {
 public:
  LiteralPieces(std::string literal, bool with_next)
      : literal_(std::move(literal)), with_next_(with_next) {}
  Status find(std::string_view text,
              std::uint32_t base,
              std::size_t n_max,
              std::size_t& at,
              std::vector<PieceRange>& out) const override {
    for (std::size_t n = 0; n < n_max && at < text.size(); ++n) {
      const std::size_t skipped =
          with_next_ && text.substr(at).starts_with(literal_) ? literal_.size() : std::size_t{0};
      const std::size_t found = text.find(literal_, at + skipped);
      const std::size_t end = found == std::string_view::npos ? text.size()
                              : with_next_                    ? found
                                                              : found + literal_.size();
      out.push_back(
          {base + static_cast<std::uint32_t>(at), base + static_cast<std::uint32_t>(end)});
      at = end;
    }
    return {};
  }

 private:
  std::string literal_;
  bool with_next_;
};

// Every character of a kind is a match of its own, or every run of them.
class CharacterMatcher final : public Matcher {
 public:
  CharacterMatcher(CharacterTest test, bool takes_runs) : test_(test), takes_runs_(takes_runs) {}
  Status find(std::string_view text,
              std::uint32_t base,
              std::size_t n_max,
              std::size_t& at,
              std::vector<PieceRange>& out) const override {
    for (std::size_t n = 0; n < n_max && at < text.size();) {
      CodePoint c = code_point_at(text, at);
      const auto begin = base + static_cast<std::uint32_t>(at);
      at += c.n_bytes;
      if (!test_(c.value)) continue;
      while (takes_runs_ && at < text.size()) {
        c = code_point_at(text, at);
        if (!test_(c.value)) break;
        at += c.n_bytes;
      }
      out.push_back({begin, base + static_cast<std::uint32_t>(at)});
      ++n;
    }
    return {};
  }

 private:
  CharacterTest test_;
  bool takes_runs_;
};

// Runs of word characters, and runs of what is neither a word character nor white space.
class WordMatcher final : public Matcher {
 public:
  Status find(std::string_view text,
              std::uint32_t base,
              std::size_t n_max,
              std::size_t& at,
              std::vector<PieceRange>& out) const override {
    const auto kind_at = [&](std::size_t place) {
      const char32_t c = code_point_at(text, place).value;
      return is_word_character(c) ? 1 : is_space(c) ? 0 : 2;
    };
    for (std::size_t n = 0; n < n_max && at < text.size(); ++n) {
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

class SplitStep final : public CutStep {
 public:
  SplitStep(std::unique_ptr<Matcher> matcher, SplitRule rule)
      : matcher_(std::move(matcher)), rule_(rule) {}

  Status cut(std::string_view text,
             std::span<const PieceRange> pieces,
             PieceVisitor visit) const override {
    const bool is_local =
        rule_.behavior == SplitBehavior::kIsolated || rule_.behavior == SplitBehavior::kRemoved;
    return is_local ? cut_in_parts(text, pieces, visit) : cut_whole(text, pieces, visit);
  }

 private:
  // What becomes of a part does not depend on its neighbours: a few matches at a time.
  Status cut_in_parts(std::string_view text,
                      std::span<const PieceRange> pieces,
                      PieceVisitor visit) const {
    const bool keeps_all = rule_.behavior == SplitBehavior::kIsolated;
    const bool keeps_matches = keeps_all || rule_.invert;
    const bool keeps_gaps = keeps_all || !rule_.invert;
    PieceBatch out(visit);
    std::vector<PieceRange> matches;
    matches.reserve(std::min<std::size_t>(PieceBatch::kPieces, text.size() / 4 + 8));
    for (const PieceRange& piece : pieces) {
      const std::string_view source = piece_text(text, piece);
      std::uint32_t done = piece.begin;
      for (std::size_t at = 0; at < source.size() && out.is_wanted();) {
        matches.clear();
        COXSWAIN_RETURN_IF_ERROR(
            matcher_->find(source, piece.begin, PieceBatch::kPieces, at, matches));
        for (const PieceRange& match : matches) {
          if (keeps_gaps) out.add({done, match.begin});
          if (keeps_matches) out.add(match);
          done = match.end;
        }
      }
      if (keeps_gaps) out.add({done, piece.end});
    }
    out.flush();
    return {};
  }

  Status cut_whole(std::string_view text,
                   std::span<const PieceRange> pieces,
                   PieceVisitor visit) const {
    PieceBatch batch(visit);
    std::vector<PieceRange> out;
    std::vector<PieceRange> matches;
    std::vector<Part> parts;
    for (const PieceRange& piece : pieces) {
      const std::string_view source = piece_text(text, piece);
      matches.clear();
      std::size_t at = 0;
      COXSWAIN_RETURN_IF_ERROR(matcher_->find(source, piece.begin, source.size(), at, matches));
      parts.clear();
      append_parts(parts, piece, matches, rule_.invert);
      out.clear();
      append_split(parts, rule_.behavior, out);
      for (const PieceRange& part : out) batch.add(part);
    }
    batch.flush();
    return {};
  }

  std::unique_ptr<Matcher> matcher_;
  SplitRule rule_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_scanner_split(SplitScanner scanner) {
  return std::make_unique<SplitStep>(std::make_unique<ScannerMatcher>(scanner), SplitRule());
}

std::unique_ptr<PreTokenizer> make_scanner_split(SplitScanner scanner, SplitRule rule) {
  return std::make_unique<SplitStep>(std::make_unique<ScannerMatcher>(scanner), rule);
}

std::unique_ptr<PreTokenizer> make_regex_split(Regex regex, SplitRule rule) {
  return std::make_unique<SplitStep>(std::make_unique<RegexMatcher>(std::move(regex)), rule);
}

std::unique_ptr<PreTokenizer> make_literal_split(std::string literal, SplitRule rule) {
  const bool with_next = rule.behavior == SplitBehavior::kMergedWithNext;
  if (rule.invert || literal.empty() ||
      (!with_next && rule.behavior != SplitBehavior::kMergedWithPrevious))
    return std::make_unique<SplitStep>(std::make_unique<LiteralMatcher>(std::move(literal)), rule);
  return std::make_unique<SplitStep>(std::make_unique<LiteralPieces>(std::move(literal), with_next),
                                     SplitRule());
}

std::unique_ptr<PreTokenizer> make_character_split(CharacterTest test, SplitBehavior behavior) {
  const bool takes_runs = behavior == SplitBehavior::kContiguous;
  return std::make_unique<SplitStep>(
      std::make_unique<CharacterMatcher>(test, takes_runs),
      SplitRule{takes_runs ? SplitBehavior::kIsolated : behavior, false});
}

std::unique_ptr<PreTokenizer> make_word_split() {
  return std::make_unique<SplitStep>(std::make_unique<WordMatcher>(),
                                     SplitRule{SplitBehavior::kRemoved, true});
}

}  // namespace coxswain::tokenizer
