#include "grammar/pattern.h"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace coxswain::grammar {
namespace {

using Kind = Expressions::Kind;

constexpr std::size_t kDepthMax = 512;
constexpr std::string_view kCarried = "pattern:";  // no program begins so

Status not_regular(std::string why) {
  return {Code::kUnimplemented, ErrorKind::kValidation, std::move(why)};
}

void append_hex(std::string& out, char32_t character) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  out += "\\x";
  out += kDigits[character >> 4 & 0xF];
  out += kDigits[character & 0xF];
}

// Within classes and outside: what has a meaning in either is spelled by its number.
void append_character(std::string& out, char32_t character) {
  constexpr std::string_view kPlain = " !\"%',/:;<=>@_`";
  const bool alphanumeric = (character >= '0' && character <= '9') ||
                            (character >= 'A' && character <= 'Z') ||
                            (character >= 'a' && character <= 'z');
  const bool plain = alphanumeric ||
                     (character < 0x80 && kPlain.find(static_cast<char>(character)) != kPlain.npos);
  if (!plain && character < 0xA0) return append_hex(out, character);
  base::append_utf8(out, character);
}

void append_class(std::string& out, const CharacterSet& set) {
  out += '[';
  const CharacterSet rest = set.complement();
  const bool inverted = !rest.empty() && rest.ranges().size() < set.ranges().size();
  if (inverted) out += '^';
  for (const auto& [first, last] : (inverted ? rest : set).ranges()) {
    append_character(out, first);
    if (last > first + 1) out += '-';
    if (last > first) append_character(out, last);
  }
  out += ']';
}

class Printer {
 public:
  explicit Printer(const Expressions& expressions)
      : expressions_(expressions), open_(expressions.n_rules(), false) {}

  Result<std::string> print(Node node) {
    COXSWAIN_RETURN_IF_ERROR(append(node, Place::kWhole));
    return std::move(out_);
  }

 private:
  // What stands around a part decides whether it needs a group.
  enum class Place : std::uint8_t { kWhole, kInSequence, kRepeated };

  // NOLINTNEXTLINE(misc-no-recursion): to kDepthMax
  Status append(Node node, Place place) {
    // Parts that are used twice are written twice, and what is written may be nothing.
    if (out_.size() > kPatternBytesMax || ++n_nodes_ > kPatternBytesMax || depth_ > kDepthMax) {
      return {Code::kResourceExhausted,
              ErrorKind::kValidation,
              "as a regular expression it has more than " + std::to_string(kPatternBytesMax) +
                  " bytes, or parts in more than " + std::to_string(kDepthMax) + " others"};
    }
    ++depth_;
    Status status = append_entry(node, place);
    --depth_;
    return status;
  }

  // NOLINTNEXTLINE(misc-no-recursion)
  Status append_entry(Node node, Place place) {
    const Expressions::Entry& entry = expressions_.entry(node);
    switch (entry.kind) {
      case Kind::kNothing:
        return not_regular("it allows no text");
      case Kind::kBytes:
        return append_bytes(entry.bytes, place);
      case Kind::kCharacters:
        append_set(entry.characters);
        return {};
      case Kind::kSequence:
        return append_parts(entry.parts, "", place == Place::kRepeated);
      case Kind::kChoice:
        return append_parts(entry.parts, "|", place != Place::kWhole);
      case Kind::kRepeat:
        return append_repeat(entry, place);
      case Kind::kRule:
        break;
    }
    if (open_[entry.rule]) return not_regular("it is recursive, which no regular expression is");
    open_[entry.rule] = true;
    Status status = append(expressions_.definition(entry.rule), place);
    open_[entry.rule] = false;
    return status;
  }

  Status append_bytes(const std::string& bytes, Place place) {
    const auto characters = to_code_points(bytes);
    if (!characters) return not_regular("it asks for special tokens, which have no text");
    const bool grouped = place == Place::kRepeated && characters->size() != 1;
    if (grouped) out_ += '(';
    for (const char32_t character : *characters) append_character(out_, character);
    if (grouped) out_ += ')';
    return {};
  }

  void append_set(const CharacterSet& set) {
    const auto ranges = set.ranges();
    if (ranges.size() == 1 && ranges[0].first == ranges[0].last)
      append_character(out_, ranges[0].first);
    else
      append_class(out_, set);
  }

  // NOLINTNEXTLINE(misc-no-recursion)
  Status append_parts(const std::vector<Node>& parts, std::string_view between, bool grouped) {
    if (grouped) out_ += '(';
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) out_ += between;
      COXSWAIN_RETURN_IF_ERROR(
          append(parts[i], between.empty() ? Place::kInSequence : Place::kWhole));
    }
    if (grouped) out_ += ')';
    return {};
  }

  // NOLINTNEXTLINE(misc-no-recursion)
  Status append_repeat(const Expressions::Entry& entry, Place place) {
    const bool grouped = place == Place::kRepeated;
    if (grouped) out_ += '(';
    COXSWAIN_RETURN_IF_ERROR(append(entry.parts.front(), Place::kRepeated));
    if (entry.min == 0 && entry.max == 1) {
      out_ += '?';
    } else if (entry.max == kUnbounded && entry.min <= 1) {
      out_ += entry.min == 0 ? '*' : '+';
    } else {
      out_ += '{' + std::to_string(entry.min);
      if (entry.max != entry.min) out_ += ',';
      if (entry.max != entry.min && entry.max != kUnbounded) out_ += std::to_string(entry.max);
      out_ += '}';
    }
    if (grouped) out_ += ')';
    return {};
  }

  const Expressions& expressions_;
  std::vector<bool> open_;  // by rule
  std::size_t n_nodes_ = 0;
  std::size_t depth_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> pattern_of(const Expressions& expressions, Node node) {
  return Printer(expressions).print(node);
}

CompiledGrammar carry_pattern(std::string_view pattern) {
  return {std::make_shared<const std::string>(std::string(kCarried).append(pattern))};
}

std::optional<std::string_view> carried_pattern(const CompiledGrammar& grammar) {
  if (!grammar || !grammar.bytes->starts_with(kCarried)) return std::nullopt;
  return std::string_view(*grammar.bytes).substr(kCarried.size());
}

}  // namespace coxswain::grammar
