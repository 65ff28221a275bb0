#include "tokenizer/bulk_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <simdjson.h>
#include <utility>

namespace coxswain::tokenizer {
namespace {

using simdjson::ondemand::json_type;

// One section on its way from its first to its last entry. simdjson needs room behind the text, so it reads a copy.
class Section {
 public:
  explicit Section(std::string_view text) : text_(text) {
    error_ = parser_.iterate(text_).get(document_);
  }

  Result<simdjson::ondemand::object> object() {
    simdjson::ondemand::object out;
    if (error_ == simdjson::SUCCESS) error_ = document_.get_object().get(out);
    if (error_ != simdjson::SUCCESS) return not_read();
    return out;
  }
  Result<simdjson::ondemand::array> array() {
    simdjson::ondemand::array out;
    if (error_ == simdjson::SUCCESS) error_ = document_.get_array().get(out);
    if (error_ != simdjson::SUCCESS) return not_read();
    return out;
  }

  Status error(const std::string& what) {
    const char* at = nullptr;
    const bool is_inside =
        error_ == simdjson::SUCCESS && document_.current_location().get(at) == simdjson::SUCCESS;
    const std::size_t offset =
        is_inside ? static_cast<std::size_t>(at - text_.data()) : text_.size();
    return invalid_argument(what + " at byte " + std::to_string(offset) + " of the section");
  }
  // After the last entry.
  Status finish() {
    const char* at = nullptr;
    if (document_.current_location().get(at) == simdjson::OUT_OF_BOUNDS) return {};
    return error("something follows the list");
  }

 private:
  Status not_read() const {
    return invalid_argument("the list cannot be read: " +
                            std::string(simdjson::error_message(error_)));
  }

  simdjson::padded_string text_;
  simdjson::ondemand::parser parser_;
  simdjson::ondemand::document document_;
  simdjson::error_code error_ = simdjson::SUCCESS;
};

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

// The text of an object or array; empty for anything else.
simdjson::error_code container_text(simdjson::ondemand::value& value, std::string_view& out) {
  json_type type{};
  simdjson::error_code error = value.type().get(type);
  if (error != simdjson::SUCCESS) return error;
  if (type == json_type::object) {
    simdjson::ondemand::object object;
    error = value.get_object().get(object);
    if (error == simdjson::SUCCESS) error = object.raw_json().get(out);
  } else if (type == json_type::array) {
    simdjson::ondemand::array array;
    error = value.get_array().get(array);
    if (error == simdjson::SUCCESS) error = array.raw_json().get(out);
  }
  out = out.substr(0, out.find_last_of("]}") + 1);  // without the blanks behind it
  return error;
}

// The sections of one text. Members are visited from the first on, never looked for: that would go back to what was
// skipped, and simdjson takes that to be sound.
struct FoundSections {
  std::string_view vocab;
  std::string_view merges;
};

simdjson::error_code find_in_model(simdjson::ondemand::object model, FoundSections& out) {
  for (auto member : model) {
    simdjson::ondemand::field field;
    if (const auto error = std::move(member).get(field); error != simdjson::SUCCESS) return error;
    const bool is_vocab = field.key() == "vocab" && out.vocab.empty();
    const bool is_merges = field.key() == "merges" && out.merges.empty();
    if (!is_vocab && !is_merges) continue;
    const auto error = container_text(field.value(), is_vocab ? out.vocab : out.merges);
    if (error != simdjson::SUCCESS) return error;
  }
  return simdjson::SUCCESS;
}

simdjson::error_code find_sections(const simdjson::padded_string& text, FoundSections& out) {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::object root;
  simdjson::error_code error = parser.iterate(text).get(document);
  if (error == simdjson::SUCCESS) error = document.get_object().get(root);
  if (error != simdjson::SUCCESS) return error;
  for (auto member : root) {
    simdjson::ondemand::field field;
    error = std::move(member).get(field);
    if (error != simdjson::SUCCESS) return error;
    if (field.key() != "model") continue;
    simdjson::ondemand::object model;
    error = field.value().get_object().get(model);
    return error == simdjson::SUCCESS ? find_in_model(model, out) : error;
  }
  return simdjson::SUCCESS;
}

// "left right", or an array of both.
bool read_merge(simdjson::simdjson_result<simdjson::ondemand::value> item,
                std::string_view& left,
                std::string_view& right) {
  simdjson::ondemand::value value;
  json_type type{};
  if (item.get(value) != simdjson::SUCCESS || value.type().get(type) != simdjson::SUCCESS)
    return false;
  if (type == json_type::string) {
    std::string_view both;
    if (value.get_string().get(both) != simdjson::SUCCESS) return false;
    const std::size_t blank = both.find(' ');
    if (blank == std::string_view::npos || both.find(' ', blank + 1) != std::string_view::npos)
      return false;
    left = both.substr(0, blank);
    right = both.substr(blank + 1);
    return true;
  }
  simdjson::ondemand::array parts;
  if (type != json_type::array || value.get_array().get(parts) != simdjson::SUCCESS) return false;
  std::size_t n = 0;
  for (auto part : parts) {
    std::string_view token;
    if (n == 2 || part.get_string().get(token) != simdjson::SUCCESS) return false;
    (n++ == 0 ? left : right) = token;
  }
  return n == 2;
}

}  // namespace

BulkSections cut_bulk_sections(std::string_view text) {
  const simdjson::padded_string padded(text);
  FoundSections found;
  BulkSections out;
  if (find_sections(padded, found) == simdjson::SUCCESS) {
    const auto part_of_text = [&](std::string_view part) {
      return part.empty()
                 ? part
                 : text.substr(static_cast<std::size_t>(part.data() - padded.data()), part.size());
    };
    out.vocab = part_of_text(found.vocab);
    if (found.merges.starts_with('[')) out.merges = part_of_text(found.merges);
  }
  std::size_t copied = 0;
  std::array parts{out.vocab, out.merges};
  std::ranges::sort(parts, {}, &std::string_view::data);
  for (const std::string_view part : parts) {
    if (part.empty()) continue;
    const auto at = static_cast<std::size_t>(part.data() - text.data());
    out.rest.append(text.substr(copied, at - copied)).append(part[0] == '{' ? "{}" : "[]");
    copied = at + part.size();
  }
  out.rest.append(text.substr(copied));
  return out;
}

Status read_vocab_object(std::string_view section,
                         base::FunctionRef<void(std::size_t n_tokens)> start,
                         base::FunctionRef<Status(std::string_view, std::int64_t)> visit) {
  Section reader(section);
  COXSWAIN_ASSIGN_OR_RETURN(simdjson::ondemand::object tokens, reader.object());
  std::size_t n_tokens = 0;
  if (tokens.count_fields().get(n_tokens) != simdjson::SUCCESS)
    return reader.error("the list does not end");
  start(n_tokens);
  for (auto field : tokens) {
    std::string_view token;
    std::int64_t id = 0;
    if (field.unescaped_key().get(token) != simdjson::SUCCESS)
      return reader.error("not \"token\": id");
    if (field.value().get_int64().get(id) != simdjson::SUCCESS)
      return invalid_argument("[\"" + std::string(token) + "\"]: id is no integer that fits");
    COXSWAIN_RETURN_IF_ERROR(visit(token, id));
  }
  return reader.finish();
}

Status read_vocab_array(std::string_view section,
                        base::FunctionRef<Status(std::string_view, double)> visit) {
  Section reader(section);
  COXSWAIN_ASSIGN_OR_RETURN(simdjson::ondemand::array pieces, reader.array());
  for (auto item : pieces) {
    simdjson::ondemand::array pair;
    if (item.get_array().get(pair) != simdjson::SUCCESS) return reader.error("not [token, score]");
    std::string_view token;
    std::string_view number;
    std::size_t n = 0;
    for (auto part : pair) {
      double nearest = 0;
      const bool is_read = n == 0   ? part.get_string().get(token) == simdjson::SUCCESS
                           : n == 1 ? part.raw_json_token().get(number) == simdjson::SUCCESS &&
                                          part.get_double().get(nearest) == simdjson::SUCCESS
                                    : false;
      if (!is_read) return reader.error("not [token, score]");
      ++n;
    }
    if (n != 2) return reader.error("not [token, score]");
    // Without the blanks behind it.
    number = number.substr(0, number.find_last_of("0123456789") + 1);
    const double score = reference_double(number);
    if (!std::isfinite(score)) return reader.error("the score is no number");
    COXSWAIN_RETURN_IF_ERROR(visit(token, score));
  }
  return reader.finish();
}

Status read_merge_array(std::string_view section,
                        base::FunctionRef<Status(std::string_view, std::string_view)> visit) {
  Section reader(section);
  COXSWAIN_ASSIGN_OR_RETURN(simdjson::ondemand::array merges, reader.array());
  std::size_t index = 0;
  for (auto item : merges) {
    std::string_view left;
    std::string_view right;
    if (!read_merge(item, left, right))
      return invalid_argument("[" + std::to_string(index) + "]: not a pair of tokens");
    COXSWAIN_RETURN_IF_ERROR(visit(left, right));
    ++index;
  }
  return reader.finish();
}

}  // namespace coxswain::tokenizer
