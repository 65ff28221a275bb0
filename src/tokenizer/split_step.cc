#include "tokenizer/split_step.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

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

// A search for the matches of a pattern in one piece, in steps of some matches.
struct Search {
  std::string_view text;
  std::uint32_t base = 0;  // where the text begins
  // From where on to look; a step moves it to the end of its last match, or of the text.
  std::size_t at = 0;
  std::vector<PieceRange> matches;  // of the last step

  void add(std::size_t begin, std::size_t end) {
    matches.push_back(
        {base + static_cast<std::uint32_t>(begin), base + static_cast<std::uint32_t>(end)});
  }
};

constexpr std::size_t kStepMatches = PieceBatch::kPieces;

// What a Split step looks for: adds the next kStepMatches matches or so.
using Matcher = std::function<Status(Search&)>;

Matcher match_scanner(SplitScanner scanner) {
  return [=](Search& search) {
    search.at =
        scan_some(scanner, search.text, search.base, search.at, kStepMatches, search.matches);
    return Status();
  };
}

Matcher match_regex(Regex regex) {
  return [regex = std::move(regex)](Search& search) -> Status {
    COXSWAIN_ASSIGN_OR_RETURN(const std::vector<TextSpan> found,
                              regex.find_some(search.text, kStepMatches, search.at));
    for (const TextSpan& span : found) search.add(span.begin, span.end);
    return {};
  };
}

Matcher match_literal(std::string literal) {
  return [literal = std::move(literal)](Search& search) {
    while (search.matches.size() < kStepMatches) {
      const std::size_t found =
          literal.empty() ? std::string_view::npos : search.text.find(literal, search.at);
      if (found == std::string_view::npos) {
        search.at = search.text.size();
        break;
      }
      search.at = found + literal.size();
      search.add(found, search.at);
    }
    return Status();
  };
}

// A literal with what goes up to the next one, or with what lies before it: the behaviours
// MergedWithNext and MergedWithPrevious.
Matcher match_literal_pieces(std::string literal, bool with_next) {
  return [literal = std::move(literal), with_next](Search& search) {
    const std::string_view text = search.text;
    while (search.matches.size() < kStepMatches && search.at < text.size()) {
      const bool skips = with_next && text.substr(search.at).starts_with(literal);
      const std::size_t found = text.find(literal, search.at + (skips ? literal.size() : 0));
      const std::size_t end = found == std::string_view::npos ? text.size()
                              : with_next                     ? found
                                                              : found + literal.size();
      search.add(search.at, end);
      search.at = end;
    }
    return Status();
  };
}

// Every character of a kind is a match of its own, or every run of them.
Matcher match_characters(CharacterTest test, bool takes_runs) {
  return [=](Search& search) {
    const std::string_view text = search.text;
    std::size_t& at = search.at;
    while (search.matches.size() < kStepMatches && at < text.size()) {
      CodePoint c = code_point_at(text, at);
      const std::size_t begin = at;
      at += c.n_bytes;
      if (!test(c.value)) continue;
      while (takes_runs && at < text.size()) {
        c = code_point_at(text, at);
        if (!test(c.value)) break;
        at += c.n_bytes;
      }
      search.add(begin, at);
    }
    return Status();
  };
}

// Runs of word characters, and runs of what is neither a word character nor white space.
Matcher match_words() {
  return [](Search& search) {
    const std::string_view text = search.text;
    const auto kind_at = [&](std::size_t place) {
      const char32_t c = code_point_at(text, place).value;
      return is_word_character(c) ? 1 : is_space(c) ? 0 : 2;
    };
    while (search.matches.size() < kStepMatches && search.at < text.size()) {
      const int kind = kind_at(search.at);
      std::size_t end = search.at;
      while (end < text.size() && kind_at(end) == kind) end += code_point_at(text, end).n_bytes;
      if (kind != 0) search.add(search.at, end);
      search.at = end;
    }
    return Status();
  };
}

class SplitStep final : public CutStep {
 public:
  SplitStep(Matcher matcher, SplitRule rule) : matcher_(std::move(matcher)), rule_(rule) {}

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
    Search search;
    search.matches.reserve(std::min<std::size_t>(kStepMatches, text.size() / 4 + 8));
    for (const PieceRange& piece : pieces) {
      search.text = text.substr(piece.begin, piece.end - piece.begin);
      search.base = piece.begin;
      search.at = 0;
      std::uint32_t done = piece.begin;
      while (search.at < search.text.size() && out.is_wanted()) {
        search.matches.clear();
        COXSWAIN_RETURN_IF_ERROR(matcher_(search));
        for (const PieceRange& match : search.matches) {
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

  Matcher matcher_;
  SplitRule rule_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_scanner_split(SplitScanner scanner, SplitRule rule) {
  return std::make_unique<SplitStep>(match_scanner(scanner), rule);
}

std::unique_ptr<PreTokenizer> make_regex_split(Regex regex, SplitRule rule) {
  return std::make_unique<SplitStep>(match_regex(std::move(regex)), rule);
}

std::unique_ptr<PreTokenizer> make_literal_split(std::string literal, SplitRule rule) {
  const bool with_next = rule.behavior == SplitBehavior::kMergedWithNext;
  if (rule.invert || literal.empty() ||
      (!with_next && rule.behavior != SplitBehavior::kMergedWithPrevious))
    return std::make_unique<SplitStep>(match_literal(std::move(literal)), rule);
  return std::make_unique<SplitStep>(match_literal_pieces(std::move(literal), with_next),
                                     SplitRule());
}

std::unique_ptr<PreTokenizer> make_character_split(CharacterTest test, SplitBehavior behavior) {
  const bool takes_runs = behavior == SplitBehavior::kContiguous;
  return std::make_unique<SplitStep>(
      match_characters(test, takes_runs),
      SplitRule{takes_runs ? SplitBehavior::kIsolated : behavior, false});
}

std::unique_ptr<PreTokenizer> make_word_split() {
  return std::make_unique<SplitStep>(match_words(), SplitRule{SplitBehavior::kRemoved, true});
}

}  // namespace coxswain::tokenizer
