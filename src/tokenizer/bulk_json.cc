#include "tokenizer/bulk_json.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "tokenizer/byte_mask.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

// Position after the string that starts at `at` (a quote); the end of the text if it does not end.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  if (at < text.size() && !is_blank(text[at])) return at;
  for (; at + Bytes16::kBytes <= text.size(); at += Bytes16::kBytes) {
    const Bytes16 bytes(text.data() + at);
    const std::uint32_t others = ~(bytes.equal_to(' ') | bytes.equal_to('\n') |
                                   bytes.equal_to('\r') | bytes.equal_to('\t')) &
                                 0xFFFFU;
    if (others != 0) return at + static_cast<std::size_t>(std::countr_zero(others));
  }
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

std::size_t count_quotes(std::string_view text) {
  std::size_t n = 0;
  std::size_t at = 0;
  for (; at + Bytes64::kBytes <= text.size(); at += Bytes64::kBytes)
    n += static_cast<std::size_t>(std::popcount(Bytes64(text.data() + at).equal_to('"')));
  return n + static_cast<std::size_t>(std::ranges::count(text.substr(at), '"'));
}

// Whether a list of merges has pairs of strings, not strings with a blank inside.
bool has_pairs(std::string_view merges) {
  const std::size_t first = skip_blanks(merges, 1);
  return first < merges.size() && merges[first] == '[';
}

// Finds the end of an object or array, 64 bytes at a time: in most blocks no bracket outside of
// strings can be the last one.
class ContainerEnd {
 public:
  // Position after the object or array that starts at `at`; the end of the text if it does not end.
  static std::size_t find(std::string_view text, std::size_t at) {
    ContainerEnd state;
    for (; at + Bytes64::kBytes <= text.size(); at += Bytes64::kBytes) {
      const char* const block = text.data() + at;
      if (state.skip_block(block)) continue;
      for (std::size_t i = 0; i < Bytes64::kBytes; ++i) {
        if (state.ends_with(block[i])) return at + i + 1;
      }
    }
    for (; at < text.size(); ++at) {
      if (state.ends_with(text[at])) return at + 1;
    }
    return text.size();
  }

 private:
  // Takes a block without escapes in which the container cannot end. False: nothing was taken.
  bool skip_block(const char* block) {
    const Bytes64 bytes(block);
    if (is_escaped_ || bytes.equal_to('\\') != 0) return false;
    std::uint64_t in_string = bytes.equal_to('"');  // from an opening quote up to the closing one
    for (int shift = 1; shift < 64; shift *= 2) in_string ^= in_string << shift;
    if (is_string_) in_string = ~in_string;
    const auto outside = [&](char curly, char square) {
      const std::uint64_t brackets = bytes.equal_to(curly) | bytes.equal_to(square);
      return static_cast<std::size_t>(std::popcount(brackets & ~in_string));
    };
    const std::size_t n_closed = outside('}', ']');
    if (n_closed >= depth_) return false;
    depth_ += outside('{', '[');
    depth_ -= n_closed;
    is_string_ = in_string >> 63 != 0;
    return true;
  }

  bool ends_with(char c) {
    if (is_string_) {
      const bool was_escaped = std::exchange(is_escaped_, false);
      if (was_escaped) return false;
      is_escaped_ = c == '\\';
      is_string_ = c != '"';
      return false;
    }
    is_string_ = c == '"';
    if (c == '{' || c == '[') ++depth_;
    return (c == '}' || c == ']') && --depth_ == 0;
  }

  std::size_t depth_ = 0;
  bool is_string_ = false;
  bool is_escaped_ = false;  // the next character of the string
};

// Reads a section from left to right.
class SectionReader {
 public:
  explicit SectionReader(std::string_view text) : text_(text) {}

  // Whether `c` comes next; takes it if so.
  bool take(char c) {
    at_ = skip_blanks(text_, at_);
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool at_end() { return (at_ = skip_blanks(text_, at_)) == text_.size(); }
  Status error(std::string_view what) const {
    return invalid_argument(std::string(what) + " at byte " + std::to_string(at_) +
                            " of the section");
  }

  // A string; escapes are resolved into `buffer`. Empty optional if it is no valid JSON string.
  std::optional<std::string_view> string(std::string& buffer) {
    if (!take('"')) return std::nullopt;
    const std::size_t begin = at_;
    bool is_plain = skip_ordinary();
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c < 0x20) return std::nullopt;
      if (c == '\\') return escaped_string(begin, buffer);
      is_plain = is_plain && c < 0x80;
    }
    if (at_ == text_.size()) return std::nullopt;
    const std::string_view out = text_.substr(begin, at_++ - begin);
    if (!is_plain && valid_utf8_prefix(out) != out.size()) return std::nullopt;
    return out;
  }

  std::string_view number() {
    at_ = skip_blanks(text_, at_);
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           std::string_view("+-.0123456789eE").find(text_[at_]) != std::string_view::npos)
      ++at_;
    return text_.substr(begin, at_ - begin);
  }

 private:
  // Skips characters of a string in large steps, up to its end or to one that needs care. False if
  // one of them was beyond ASCII.
  bool skip_ordinary() {
    bool is_plain = true;
    for (; at_ + Bytes16::kBytes <= text_.size(); at_ += Bytes16::kBytes) {
      const Bytes16 bytes(text_.data() + at_);
      const std::uint32_t stops = bytes.equal_to('"') | bytes.equal_to('\\') | bytes.controls();
      const std::uint32_t skipped = stops == 0 ? 0xFFFFU : (stops & (~stops + 1)) - 1;
      is_plain = is_plain && (bytes.beyond_ascii() & skipped) == 0;
      if (stops == 0) continue;
      at_ += static_cast<std::size_t>(std::countr_zero(stops));
      break;
    }
    return is_plain;
  }

  std::optional<std::string_view> escaped_string(std::size_t begin, std::string& buffer) {
    buffer.assign(text_.substr(begin, at_ - begin));
    while (at_ < text_.size() && text_[at_] != '"') {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c < 0x20) return std::nullopt;
      if (c != '\\') {
        buffer.push_back(text_[at_++]);
        continue;
      }
      ++at_;
      if (!escape(buffer)) return std::nullopt;
    }
    if (at_ == text_.size()) return std::nullopt;
    ++at_;
    if (valid_utf8_prefix(buffer) != buffer.size()) return std::nullopt;
    return buffer;
  }

  bool escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kCharacters = "\"\\/\b\f\n\r\t";
    if (at_ == text_.size()) return false;
    const char name = text_[at_++];
    if (const std::size_t found = kNames.find(name); found != std::string_view::npos) {
      out.push_back(kCharacters[found]);
      return true;
    }
    auto c = name == 'u' ? hex4() : std::nullopt;
    if (!c || (*c >= 0xDC00 && *c <= 0xDFFF)) return false;
    if (*c >= 0xD800 && *c <= 0xDBFF) {
      if (!text_.substr(at_).starts_with("\\u")) return false;
      at_ += 2;
      const auto low = hex4();
      if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
      c = 0x10000 + ((*c - 0xD800) << 10) + (*low - 0xDC00);
    }
    append_utf8(out, *c);
    return true;
  }

  std::optional<char32_t> hex4() {
    if (text_.size() - at_ < 4) return std::nullopt;
    unsigned value = 0;
    const auto read = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, value, 16);
    if (read.ptr != text_.data() + at_ + 4) return std::nullopt;
    at_ += 4;
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Calls item() for each element between the first character of `brackets` and the second.
template <typename Item>
Status read_list(SectionReader& reader, std::string_view brackets, ListPart part, Item item) {
  if (part != ListPart::kTail && !reader.take(brackets[0]))
    return reader.error("a list is missing");
  if (part != ListPart::kWhole || !reader.take(brackets[1])) {
    do {
      if (part == ListPart::kHead && reader.at_end()) return {};
      COXSWAIN_RETURN_IF_ERROR(item());
    } while (reader.take(','));
    if (part == ListPart::kHead || !reader.take(brackets[1]))
      return reader.error("the list does not end");
  }
  return reader.at_end() ? Status() : reader.error("something follows the list");
}

bool is_json_number(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  return !digits.empty() && digits[0] >= '0' && digits[0] <= '9' &&
         (digits.size() == 1 || digits[0] != '0' || digits[1] < '0' || digits[1] > '9');
}

// REQUIRES: 0 <= n <= 308.
double power_of_ten(std::int64_t n) {
  double out = 1;
  constexpr std::int64_t kExactMax = 22;  // up to here every product is exact
  if (n <= kExactMax) {
    for (; n > 0; --n) out *= 10;
    return out;
  }
  const std::string text = "1e" + std::to_string(n);
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

// The value of a JSON number as the reference's reader (serde_json) finds it: as many digits as fit
// into 64 bits, times or divided by one power of ten. The last bit may differ from that of the
// nearest double, and where sums of scores are equal that decides. Infinite if it is too large.
double reference_double(std::string_view number) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  constexpr int kPowerMax = 308;
  const bool is_negative = number.starts_with('-');
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
  bool is_full = false;  // further digits are dropped
  bool is_fraction = false;
  std::size_t at = is_negative ? 1 : 0;
  for (; at < number.size() && number[at] != 'e' && number[at] != 'E'; ++at) {
    if (number[at] == '.') {
      is_fraction = true;
      is_full = false;
      continue;
    }
    const auto digit = static_cast<std::uint64_t>(number[at] - '0');
    is_full = is_full || digits > kMax / 10 || (digits == kMax / 10 && digit > kMax % 10);
    if (!is_full) digits = digits * 10 + digit;
    if (is_full && !is_fraction) ++exponent;
    if (!is_full && is_fraction) --exponent;
  }
  if (at < number.size()) {
    std::string_view power = number.substr(at + 1);
    if (power.starts_with('+')) power.remove_prefix(1);
    std::int64_t value = 0;
    const auto read = std::from_chars(power.data(), power.data() + power.size(), value);
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    const std::int64_t limit = power.starts_with('-') ? -kFar : kFar;
    exponent += read.ec == std::errc() ? std::clamp(value, -kFar, kFar) : limit;
  }
  auto out = static_cast<double>(digits);
  for (; exponent < -kPowerMax && out != 0; exponent += kPowerMax) out /= 1e308;
  if (exponent > kPowerMax && out != 0) return std::numeric_limits<double>::infinity();
  if (out != 0 && exponent > 0) out *= power_of_ten(exponent);
  if (out != 0 && exponent < 0) out /= power_of_ten(-exponent);
  return is_negative ? -out : out;
}

}  // namespace

BulkSections cut_bulk_sections(std::string_view text) {
  BulkSections out;
  std::size_t copied = 0;
  std::size_t depth = 0;
  std::size_t model_depth = 0;  // depth inside the member "model"; 0 = not there
  std::string_view key;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      const std::size_t end = skip_string(text, at);
      const std::size_t next = skip_blanks(text, end);
      key = next < text.size() && text[next] == ':' ? text.substr(at + 1, end - at - 2)
                                                    : std::string_view();
      at = key.empty() ? end : next + 1;
      continue;
    }
    if (c == '{' || c == '[') {
      const bool is_vocab = key == "vocab" && out.vocab.empty();
      const bool is_merges = key == "merges" && c == '[' && out.merges.empty();
      if (model_depth != 0 && depth == model_depth && (is_vocab || is_merges)) {
        const std::size_t end = ContainerEnd::find(text, at);
        (is_vocab ? out.vocab : out.merges) = text.substr(at, end - at);
        out.rest.append(text.substr(copied, at - copied)).append(c == '{' ? "{}" : "[]");
        copied = at = end;
        key = {};
        continue;
      }
      ++depth;
      if (depth == 2 && c == '{' && key == "model") model_depth = depth;
      key = {};
    } else if (c == '}' || c == ']') {
      if (depth == model_depth) model_depth = 0;
      if (depth > 0) --depth;
    }
    ++at;
  }
  out.rest.append(text.substr(copied));
  return out;
}

std::optional<ListHalves> halve_merges(std::string_view list) {
  constexpr std::size_t kSearchedBytes = 4096;
  const bool of_pairs = has_pairs(list);
  const char last = of_pairs ? ']' : '"';  // of an item
  const char first = of_pairs ? '[' : '"';
  const std::size_t middle = list.size() / 2;
  const std::size_t end = std::min(middle + kSearchedBytes, list.size());
  for (std::size_t comma = list.find(',', middle); comma < end; comma = list.find(',', comma + 1)) {
    std::size_t before = comma;
    while (before > 1 && is_blank(list[before - 1])) --before;
    const std::size_t after = skip_blanks(list, comma + 1);
    const bool is_between = before > 1 && list[before - 1] == last && list[before - 2] != '\\' &&
                            after < list.size() && list[after] == first;
    if (is_between) return ListHalves{list.substr(0, comma + 1), list.substr(comma + 1)};
  }
  return std::nullopt;
}

std::size_t n_tokens_max(std::string_view vocab_object) {
  return count_quotes(vocab_object) / 2;
}

std::size_t n_merges_max(std::string_view list) {
  return count_quotes(list) / (has_pairs(list) ? 4 : 2);
}

Status read_vocab_object(std::string_view section,
                         base::FunctionRef<Status(std::string_view, std::int64_t)> visit) {
  SectionReader reader(section);
  std::string buffer;
  return read_list(reader, "{}", ListPart::kWhole, [&]() -> Status {
    const auto token = reader.string(buffer);
    if (!token || !reader.take(':')) return reader.error("not \"token\": id");
    const std::string_view number = reader.number();
    std::int64_t id = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), id);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size() ||
        !is_json_number(number))
      return invalid_argument("[\"" + std::string(*token) + "\"]: id is no integer that fits");
    return visit(*token, id);
  });
}

Status read_vocab_array(std::string_view section,
                        base::FunctionRef<Status(std::string_view, double)> visit) {
  SectionReader reader(section);
  std::string buffer;
  return read_list(reader, "[]", ListPart::kWhole, [&]() -> Status {
    const auto token = reader.take('[') ? reader.string(buffer) : std::nullopt;
    if (!token || !reader.take(',')) return reader.error("not [token, score]");
    const std::string_view number = reader.number();
    double nearest = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), nearest);
    const bool is_number = read.ec != std::errc::invalid_argument &&
                           read.ptr == number.data() + number.size() && is_json_number(number);
    const double score = is_number ? reference_double(number) : nearest;
    if (!is_number || !std::isfinite(score) || !reader.take(']'))
      return reader.error("the score is no number");
    return visit(*token, score);
  });
}

Status read_merge_array(std::string_view section,
                        base::FunctionRef<Status(std::string_view, std::string_view)> visit,
                        ListPart part) {
  SectionReader reader(section);
  std::string buffer;
  std::string second;
  std::size_t index = 0;
  return read_list(reader, "[]", part, [&]() -> Status {
    const auto bad = [&] {
      return invalid_argument("[" + std::to_string(index) + "]: not a pair of tokens");
    };
    if (reader.take('[')) {
      const auto left = reader.string(buffer);
      if (!left || !reader.take(',')) return bad();
      const auto right = reader.string(second);
      if (!right || !reader.take(']')) return bad();
      ++index;
      return visit(*left, *right);
    }
    const auto pair = reader.string(buffer);
    const std::size_t blank = pair ? pair->find(' ') : std::string_view::npos;
    if (blank == std::string_view::npos || pair->find(' ', blank + 1) != std::string_view::npos)
      return bad();
    ++index;
    return visit(pair->substr(0, blank), pair->substr(blank + 1));
  });
}

}  // namespace coxswain::tokenizer
