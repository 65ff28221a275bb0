// Reads the "pre_tokenizer" section; the steps are in split_step.cc and pretokenizer_steps.cc.

#include "tokenizer/pretokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "json/json.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/pretokenizer_steps.h"
#include "tokenizer/split_step.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode_reference.h"

namespace coxswain::tokenizer {
namespace {

bool is_number(char32_t c) {
  return (char_class(c) & kClassNumber) != 0;
}
bool is_punctuation(char32_t c) {
  constexpr std::uint16_t kAsciiSign = kClassPunctuation | kClassSymbol;
  if (c < 0x80) return (char_class(c) & kAsciiSign) != 0;
  return (char_class(c) & kClassPunctuation) != 0 && newer_category(c).empty() &&
         !is_unknown_punctuation(c);
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
    plan.leaves_bytes = last_is_alphabet_;
    plan.unknown_pattern = std::move(unknown_pattern_);
    if (last_is_alphabet_) steps_.pop_back();
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
    if (prefix) add(make_prefix_space());
    if (use_regex) add(make_scanner_split(SplitScanner::kGpt2));
    add(make_byte_alphabet());
    last_is_alphabet_ = true;
    return {};
  }

  Status read_split(const json::Value& section, const std::string& where) {
    COXSWAIN_ASSIGN_OR_RETURN(const Pattern pattern, pattern_field(section, where));
    COXSWAIN_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                              behavior_field(section, SplitBehavior::kIsolated, where));
    COXSWAIN_ASSIGN_OR_RETURN(const bool invert, bool_field(section, "invert", false, where));
    const SplitRule rule{behavior, invert};
    const auto scanner = pattern.is_regex ? known_scanner(pattern.text) : std::nullopt;
    if (scanner) {
      add(make_scanner_split(*scanner, rule));
    } else if (pattern.is_regex || pattern.text.empty()) {
      auto regex = Regex::compile(pattern.text);
      if (!regex.ok()) return regex.status().with_context(where);
      unknown_pattern_ = pattern.text;
      add(make_regex_split(std::move(regex).value(), rule));
    } else {
      add(make_literal_split(pattern.text, rule));
    }
    return {};
  }

  Status read_metaspace(const json::Value& section, const std::string& where) {
    COXSWAIN_ASSIGN_OR_RETURN(std::string replacement,
                              character_field(section, "replacement", where));
    COXSWAIN_ASSIGN_OR_RETURN(const bool prefix,
                              bool_field(section, "add_prefix_space", true, where));
    COXSWAIN_ASSIGN_OR_RETURN(
        const std::string scheme,
        string_field_or(section, "prepend_scheme", prefix ? "always" : "never", where));
    COXSWAIN_ASSIGN_OR_RETURN(const bool split, bool_field(section, "split", true, where));
    if (scheme != "always" && scheme != "first" && scheme != "never")
      return field_error(where, "prepend_scheme", "always, first or never");
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
      add(make_character_split(is_space, SplitBehavior::kRemoved));
      add(make_character_split(is_punctuation, SplitBehavior::kIsolated));
    } else if (type == "WhitespaceSplit") {
      add(make_character_split(is_space, SplitBehavior::kRemoved));
    } else if (type == "Whitespace") {
      add(make_word_split());
    } else if (type == "Punctuation") {
      COXSWAIN_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                                behavior_field(section, SplitBehavior::kIsolated, where));
      add(make_character_split(is_punctuation, behavior));
    } else if (type == "Digits") {
      COXSWAIN_ASSIGN_OR_RETURN(const bool each,
                                bool_field(section, "individual_digits", false, where));
      add(make_character_split(is_number,
                               each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
    } else {
      return invalid_argument(where + ": the pre-tokenizer \"" + type + "\" is not supported");
    }
    return {};
  }

  std::vector<std::unique_ptr<PreTokenizer>> steps_;
  std::string unknown_pattern_;
  bool last_is_alphabet_ = false;  // the last step writes the byte alphabet
};

}  // namespace

Status PreTokenizer::run(PreText& pre, PieceVisitor visit) const {
  COXSWAIN_RETURN_IF_ERROR(apply(pre));
  visit(pre.pieces);
  return {};
}

Status CutStep::apply(PreText& pre) const {
  std::vector<PieceRange> out;
  constexpr std::size_t kExpectedMax = 1 << 14;
  out.reserve(std::max(pre.pieces.size(), std::min(pre.text.size() / 4, kExpectedMax)));
  const auto append = [&](std::span<const PieceRange> pieces) {
    out.insert(out.end(), pieces.begin(), pieces.end());
    return true;
  };
  COXSWAIN_RETURN_IF_ERROR(cut(pre.text.text(), pre.pieces, append));
  pre.pieces = std::move(out);
  return {};
}

Result<PreTokenizerPlan> parse_pre_tokenizer(const json::Value& section, const std::string& where) {
  if (section.is_null()) return PreTokenizerPlan();
  PlanReader reader;
  COXSWAIN_RETURN_IF_ERROR(reader.read(section, where));
  return std::move(reader).finish();
}

}  // namespace coxswain::tokenizer
