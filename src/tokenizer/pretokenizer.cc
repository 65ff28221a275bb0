#include "tokenizer/pretokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "json/json.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode_scripts.h"

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
  using Test = bool (*)(char32_t c);
  explicit CharacterMatcher(Test test) : test_(test) {}
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
  Test test_;
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

bool is_number(char32_t c) {
  return (char_class(c) & kClassNumber) != 0;
}
bool is_punctuation(char32_t c) {
  constexpr std::uint16_t kAsciiSign = kClassPunctuation | kClassSymbol;
  constexpr std::uint16_t kSign = kClassPunctuation;
  return (char_class(c) & (c < 0x80 ? kAsciiSign : kSign)) != 0;
}

class SplitStep final : public PreTokenizer {
 public:
  SplitStep(std::unique_ptr<Matcher> matcher, SplitBehavior behavior, bool invert)
      : matcher_(std::move(matcher)), behavior_(behavior), invert_(invert) {}

  Status apply(PreText& pre) const override {
    std::vector<PieceRange> out;
    std::vector<PieceRange> matches;
    std::vector<Part> parts;
    out.reserve(std::max(pre.pieces.size() * 2, pre.text.size() / 4));
    for (const PieceRange& piece : pre.pieces) {
      matches.clear();
      COXSWAIN_RETURN_IF_ERROR(matcher_->find(piece_text(pre, piece), piece.begin, matches));
      parts.clear();
      append_parts(parts, piece, matches, invert_);
      append_split(parts, behavior_, out);
    }
    pre.pieces = std::move(out);
    return {};
  }

 private:
  std::unique_ptr<Matcher> matcher_;
  SplitBehavior behavior_;
  bool invert_;
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

// Writes each piece anew: change(builder, piece) adds what becomes of it.
template <typename Change>
void rewrite_pieces(PreText& pre, Change change) {
  AlignedBuilder out(pre.text);
  std::vector<PieceRange> pieces;
  pieces.reserve(pre.pieces.size());
  for (const PieceRange& piece : pre.pieces) {
    const auto begin = static_cast<std::uint32_t>(out.size());
    change(out, piece);
    if (out.size() > begin) pieces.push_back({begin, static_cast<std::uint32_t>(out.size())});
  }
  pre.text = AlignedText(std::move(out).finish());
  pre.pieces = std::move(pieces);
}

class PrefixSpaceStep final : public PreTokenizer {
 public:
  Status apply(PreText& pre) const override {
    const auto lacks = [&](PieceRange piece) { return pre.text.text()[piece.begin] != ' '; };
    if (std::none_of(pre.pieces.begin(), pre.pieces.end(), lacks)) return {};
    rewrite_pieces(pre, [&](AlignedBuilder& out, PieceRange piece) {
      if (lacks(piece)) out.put(" ", piece.begin, piece.begin);
      out.keep(piece.begin, piece.end);
    });
    return {};
  }
};

// Writes every byte as a character of the byte alphabet.
class ByteAlphabetStep final : public PreTokenizer {
 public:
  Status apply(PreText& pre) const override {
    rewrite_pieces(pre, [&](AlignedBuilder& out, PieceRange piece) {
      std::string characters;
      for (std::uint32_t at = piece.begin; at < piece.end; ++at) {
        characters.clear();
        append_byte_characters(characters, pre.text.text().substr(at, 1));
        out.put(characters, at, at + 1);
      }
    });
    return {};
  }
};

class MetaspaceStep final : public PreTokenizer {
 public:
  MetaspaceStep(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme) {
    if (split)
      split_ = std::make_unique<SplitStep>(
          std::make_unique<LiteralMatcher>(replacement_), SplitBehavior::kMergedWithNext, false);
  }

  Status apply(PreText& pre) const override {
    const std::string_view text = pre.text.text();
    rewrite_pieces(pre, [&](AlignedBuilder& out, PieceRange piece) {
      const std::string_view source = text.substr(piece.begin, piece.end - piece.begin);
      const bool has_prefix = source.starts_with(' ') || source.starts_with(replacement_);
      const bool wants =
          scheme_ == PrependScheme::kAlways ||
          (scheme_ == PrependScheme::kFirst && pre.text.origin_of_byte(piece.begin).begin == 0);
      if (wants && !has_prefix) out.put(replacement_, piece.begin, piece.begin);
      std::size_t kept_to = piece.begin;
      for (std::size_t at = piece.begin; at < piece.end; ++at) {
        if (text[at] != ' ') continue;
        out.keep(kept_to, at);
        out.put(replacement_, at, at + 1);
        kept_to = at + 1;
      }
      out.keep(kept_to, piece.end);
    });
    return split_ ? split_->apply(pre) : Status();
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  std::unique_ptr<SplitStep> split_;
};

class FixedLengthStep final : public PreTokenizer {
 public:
  explicit FixedLengthStep(std::size_t n_characters) : n_characters_(n_characters) {}
  Status apply(PreText& pre) const override {
    std::vector<PieceRange> out;
    for (const PieceRange& piece : pre.pieces) {
      std::uint32_t begin = piece.begin;
      std::size_t n = 0;
      for (std::uint32_t at = piece.begin; at < piece.end;) {
        at += code_point_at(pre.text.text(), at).n_bytes;
        if (++n < n_characters_ && at < piece.end) continue;
        out.push_back({begin, at});
        begin = at;
        n = 0;
      }
    }
    pre.pieces = std::move(out);
    return {};
  }

 private:
  std::size_t n_characters_;
};

// Cuts where the script changes. A blank belongs to any script; blanks before the first other
// character are lost, as in the reference.
class ScriptStep final : public PreTokenizer {
 public:
  explicit ScriptStep(UnicodeScripts scripts) : scripts_(std::move(scripts)) {}
  Status apply(PreText& pre) const override {
    std::vector<PieceRange> out;
    for (const PieceRange& piece : pre.pieces) {
      std::optional<std::size_t> script;
      std::uint32_t begin = piece.end;
      for (std::uint32_t at = piece.begin; at < piece.end;) {
        const CodePoint c = code_point_at(pre.text.text(), at);
        if (c.value != ' ') {
          const std::size_t own = scripts_.script_of(c.value);
          if (script != own) {
            if (begin < at) out.push_back({begin, at});
            begin = at;
          }
          script = own;
        }
        at += c.n_bytes;
      }
      if (begin < piece.end) out.push_back({begin, piece.end});
    }
    pre.pieces = std::move(out);
    return {};
  }

 private:
  UnicodeScripts scripts_;
};

class SequenceStep final : public PreTokenizer {
 public:
  explicit SequenceStep(std::vector<std::unique_ptr<PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  Status apply(PreText& pre) const override {
    for (const auto& part : parts_) COXSWAIN_RETURN_IF_ERROR(part->apply(pre));
    return {};
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

std::unique_ptr<PreTokenizer> split_characters(CharacterMatcher::Test test,
                                               SplitBehavior behavior) {
  return std::make_unique<SplitStep>(std::make_unique<CharacterMatcher>(test), behavior, false);
}

Result<SplitBehavior> behavior_field(const json::Value& section,
                                     SplitBehavior fallback,
                                     const std::string& where) {
  COXSWAIN_ASSIGN_OR_RETURN(const auto name, optional_string_field(section, "behavior", where));
  if (!name) return fallback;
  if (*name == "Removed") return SplitBehavior::kRemoved;
  if (*name == "Isolated") return SplitBehavior::kIsolated;
  if (*name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (*name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (*name == "Contiguous") return SplitBehavior::kContiguous;
  return field_error(where, "behavior", "a known behaviour of Split");
}

// Collects the steps of a plan in order.
class PlanReader {
 public:
  Status read(const json::Value& section, const std::string& where) {
    COXSWAIN_ASSIGN_OR_RETURN(const std::string type, string_field(section, "type", where));
    if (type == "Sequence") return read_sequence(section, where);
    if (type == "ByteLevel") return read_byte_level(section, where);
    if (type == "Split") return read_split(section, where);
    if (type == "Metaspace") return read_metaspace(section, where);
    return read_simple(type, section, where);
  }

  PreTokenizerPlan finish() && {
    PreTokenizerPlan plan;
    plan.is_byte_level = is_byte_level_;
    plan.unknown_pattern = std::move(unknown_pattern_);
    // As the last step the byte alphabet only renames bytes.
    if (is_byte_level_ && !steps_.empty() && last_is_alphabet_) {
      steps_.pop_back();
    } else {
      plan.writes_byte_alphabet = is_byte_level_;
    }
    if (!steps_.empty())
      plan.steps = steps_.size() == 1 ? std::move(steps_[0]) : make_pre_sequence(std::move(steps_));
    return plan;
  }

 private:
  void add(std::unique_ptr<PreTokenizer> step) {
    steps_.push_back(std::move(step));
    last_is_alphabet_ = false;
  }

  Status read_sequence(const json::Value& section, const std::string& where) {
    const json::Value* list = section.find("pretokenizers");
    if (list == nullptr || !list->is_array())
      return field_error(where, "pretokenizers", "an array");
    for (std::size_t i = 0; i < list->as_array().size(); ++i)
      COXSWAIN_RETURN_IF_ERROR(
          read(list->as_array()[i], where + ".pretokenizers[" + std::to_string(i) + "]"));
    return {};
  }

  Status read_byte_level(const json::Value& section, const std::string& where) {
    COXSWAIN_ASSIGN_OR_RETURN(const bool prefix,
                              bool_field(section, "add_prefix_space", true, where));
    COXSWAIN_ASSIGN_OR_RETURN(const bool use_regex, bool_field(section, "use_regex", true, where));
    if (prefix) add(std::make_unique<PrefixSpaceStep>());
    if (use_regex) add(std::make_unique<ScannerStep>(SplitScanner::kGpt2));
    if (is_byte_level_) return invalid_argument(where + ": a second ByteLevel step");
    steps_.push_back(std::make_unique<ByteAlphabetStep>());
    is_byte_level_ = last_is_alphabet_ = true;
    return {};
  }

  Status read_split(const json::Value& section, const std::string& where) {
    COXSWAIN_ASSIGN_OR_RETURN(const Pattern pattern, pattern_field(section, where));
    COXSWAIN_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                              behavior_field(section, SplitBehavior::kIsolated, where));
    COXSWAIN_ASSIGN_OR_RETURN(const bool invert, bool_field(section, "invert", false, where));
    std::unique_ptr<Matcher> matcher;
    if (!pattern.is_regex) {
      matcher = std::make_unique<LiteralMatcher>(pattern.text);
    } else if (const auto scanner = known_scanner(pattern.text)) {
      if (behavior == SplitBehavior::kIsolated && !invert) {
        add(std::make_unique<ScannerStep>(*scanner));
        return {};
      }
      matcher = std::make_unique<ScannerMatcher>(*scanner);
    } else {
      auto regex = Regex::compile(pattern.text);
      if (!regex.ok()) return regex.status().with_context(where);
      unknown_pattern_ = pattern.text;
      matcher = std::make_unique<RegexMatcher>(std::move(regex).value());
    }
    add(std::make_unique<SplitStep>(std::move(matcher), behavior, invert));
    return {};
  }

  Status read_metaspace(const json::Value& section, const std::string& where) {
    COXSWAIN_ASSIGN_OR_RETURN(std::string replacement, string_field(section, "replacement", where));
    COXSWAIN_ASSIGN_OR_RETURN(const bool prefix,
                              bool_field(section, "add_prefix_space", true, where));
    COXSWAIN_ASSIGN_OR_RETURN(
        const std::string scheme,
        string_field_or(section, "prepend_scheme", prefix ? "always" : "never", where));
    COXSWAIN_ASSIGN_OR_RETURN(const bool split, bool_field(section, "split", true, where));
    if (scheme != "always" && scheme != "first" && scheme != "never")
      return field_error(where, "prepend_scheme", "always, first or never");
    if (replacement.empty()) return field_error(where, "replacement", "one character");
    const PrependScheme parsed = scheme == "always"  ? PrependScheme::kAlways
                                 : scheme == "first" ? PrependScheme::kFirst
                                                     : PrependScheme::kNever;
    add(make_metaspace(std::move(replacement), parsed, split));
    return {};
  }

  Status read_simple(const std::string& type,
                     const json::Value& section,
                     const std::string& where) {
    if (type == "BertPreTokenizer") {
      add(split_characters(is_space, SplitBehavior::kRemoved));
      add(split_characters(is_punctuation, SplitBehavior::kIsolated));
    } else if (type == "WhitespaceSplit") {
      add(split_characters(is_space, SplitBehavior::kRemoved));
    } else if (type == "Whitespace") {
      add(std::make_unique<SplitStep>(
          std::make_unique<WordMatcher>(), SplitBehavior::kRemoved, true));
    } else if (type == "Punctuation") {
      COXSWAIN_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                                behavior_field(section, SplitBehavior::kIsolated, where));
      add(split_characters(is_punctuation, behavior));
    } else if (type == "Digits") {
      COXSWAIN_ASSIGN_OR_RETURN(const bool each,
                                bool_field(section, "individual_digits", false, where));
      add(split_characters(is_number,
                           each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
    } else if (type == "CharDelimiterSplit") {
      COXSWAIN_ASSIGN_OR_RETURN(std::string delimiter, string_field(section, "delimiter", where));
      add(std::make_unique<SplitStep>(
          std::make_unique<LiteralMatcher>(std::move(delimiter)), SplitBehavior::kRemoved, false));
    } else if (type == "UnicodeScripts") {
      COXSWAIN_ASSIGN_OR_RETURN(UnicodeScripts scripts, UnicodeScripts::create());
      add(std::make_unique<ScriptStep>(std::move(scripts)));
    } else if (type == "FixedLength") {
      COXSWAIN_ASSIGN_OR_RETURN(const std::int64_t length,
                                integer_field(section, "length", 5, where));
      if (length < 1) return field_error(where, "length", "at least 1");
      add(std::make_unique<FixedLengthStep>(static_cast<std::size_t>(length)));
    } else {
      return invalid_argument(where + ": unknown pre-tokenizer \"" + type + "\"");
    }
    return {};
  }

  std::vector<std::unique_ptr<PreTokenizer>> steps_;
  std::string unknown_pattern_;
  bool is_byte_level_ = false;
  bool last_is_alphabet_ = false;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_scanner_split(SplitScanner scanner) {
  return std::make_unique<ScannerStep>(scanner);
}

std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement,
                                             PrependScheme scheme,
                                             bool split) {
  return std::make_unique<MetaspaceStep>(std::move(replacement), scheme, split);
}

std::unique_ptr<PreTokenizer> make_pre_sequence(std::vector<std::unique_ptr<PreTokenizer>> parts) {
  return std::make_unique<SequenceStep>(std::move(parts));
}

Result<PreTokenizerPlan> parse_pre_tokenizer(const json::Value& section, const std::string& where) {
  if (section.is_null()) return PreTokenizerPlan();
  PlanReader reader;
  COXSWAIN_RETURN_IF_ERROR(reader.read(section, where));
  return std::move(reader).finish();
}

}  // namespace coxswain::tokenizer
