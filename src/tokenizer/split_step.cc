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

// Joins the parts of a piece, which come from left to right and cover it, as a behaviour asks for.
class PartJoiner {
 public:
  PartJoiner(SplitBehavior behavior, PieceBatch& out) : behavior_(behavior), out_(out) {}

  void add(const Part& part) {
    if (has_open_ && joins(part)) {
      open_.end = part.range.end;
    } else {
      finish();
      open_ = part.range;
      has_open_ = true;
    }
    last_is_match_ = part.is_match;
  }
  void finish() {
    if (has_open_) out_.add(open_);
    has_open_ = false;
  }

 private:
  bool joins(const Part& part) const {
    switch (behavior_) {
      case SplitBehavior::kContiguous:
        return part.is_match == last_is_match_;
      case SplitBehavior::kMergedWithPrevious:  // not a delimiter behind a delimiter
        return part.is_match && !last_is_match_;
      case SplitBehavior::kMergedWithNext:
        return !part.is_match && last_is_match_;
      case SplitBehavior::kRemoved:
      case SplitBehavior::kIsolated:
        break;
    }
    return false;
  }

  SplitBehavior behavior_;
  PieceBatch& out_;
  PieceRange open_;
  bool has_open_ = false;
  bool last_is_match_ = false;
};

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
  Status find(std::string_view text,
              std::uint32_t base,
              std::size_t n_max,
              std::size_t& at,
              std::vector<PieceRange>& out) const override {
    COXSWAIN_ASSIGN_OR_RETURN(const std::vector<TextSpan> found, regex_.find_some(text, n_max, at));
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
    return is_local ? cut_in_parts(text, pieces, visit) : cut_and_join(text, pieces, visit);
  }

 private:
  // For each piece visit(gap, match) for its matches and what lies before them, then end(gap).
  template <typename Visit, typename End>
  Status for_each_match(std::string_view text,
                        std::span<const PieceRange> pieces,
                        const PieceBatch& out,
                        Visit visit,
                        End end) const {
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
          visit(PieceRange{done, match.begin}, match);
          done = match.end;
        }
      }
      end(PieceRange{done, piece.end});
    }
    return {};
  }

  // What becomes of a part does not depend on its neighbours.
  Status cut_in_parts(std::string_view text,
                      std::span<const PieceRange> pieces,
                      PieceVisitor visit) const {
    const bool keeps_all = rule_.behavior == SplitBehavior::kIsolated;
    const bool keeps_matches = keeps_all || rule_.invert;
    const bool keeps_gaps = keeps_all || !rule_.invert;
    PieceBatch out(visit);
    COXSWAIN_RETURN_IF_ERROR(for_each_match(
        text,
        pieces,
        out,
        [&](PieceRange gap, PieceRange match) {
          if (keeps_gaps) out.add(gap);
          if (keeps_matches) out.add(match);
        },
        [&](PieceRange gap) {
          if (keeps_gaps) out.add(gap);
        }));
    out.flush();
    return {};
  }

  Status cut_and_join(std::string_view text,
                      std::span<const PieceRange> pieces,
                      PieceVisitor visit) const {
    PieceBatch out(visit);
    PartJoiner joiner(rule_.behavior, out);
    const auto add_gap = [&](PieceRange gap) {
      if (gap.begin < gap.end) joiner.add({gap, rule_.invert});
    };
    COXSWAIN_RETURN_IF_ERROR(for_each_match(
        text,
        pieces,
        out,
        [&](PieceRange gap, PieceRange match) {
          add_gap(gap);
          joiner.add({match, !rule_.invert});
        },
        [&](PieceRange gap) {
          add_gap(gap);
          joiner.finish();
        }));
    out.flush();
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
