#include "model/config_reader.h"

#include <optional>
#include <utility>

#include "base/utf8.h"

namespace coxswain::model {
namespace {

const json::Value& empty_object() {
  static const json::Value value{json::Object{}};
  return value;
}

constexpr std::size_t kShownBytesMax = 40;

// The end of a message about a value that is wrong.
std::string but_is(const json::Value& value) {
  std::string text = json::write(value);
  if (text.size() > kShownBytesMax) {
    text.resize(base::cut_utf8(text, kShownBytesMax).size());
    text += "...";
  }
  return ", not " + text;
}

// Shortest plain form of a bound for a message.
std::string number_text(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? std::to_string(whole) : std::to_string(value);
}

}  // namespace

ConfigReader ConfigReader::empty() {
  return {empty_object(), "config.json: "};
}

const json::Value* ConfigReader::get(std::string_view field) const {
  const json::Value* found = value_.find(field);
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool ConfigReader::says_null(std::string_view field) const {
  const json::Value* found = value_.find(field);
  return found != nullptr && found->is_null();
}

void ConfigReader::unsupported(std::string_view field, const std::string& what) {
  if (status_.ok()) {
    status_ = Status(Code::kUnimplemented,
                     ErrorKind::kValidation,
                     where_ + std::string(field) + " " + what,
                     std::string(field));
  }
}

void ConfigReader::fail(std::string_view field, const std::string& what) {
  if (status_.ok())
    status_ = invalid_argument(where_ + std::string(field) + " " + what, std::string(field));
}

std::uint32_t ConfigReader::count(std::string_view field, std::uint32_t low, std::uint32_t high) {
  const json::Value* found = get(field);
  if (found == nullptr) {
    fail(field, "is missing");
    return low;
  }
  return count_or(field, low, high, low);
}

std::uint32_t ConfigReader::count_or(std::string_view field,
                                     std::uint32_t low,
                                     std::uint32_t high,
                                     std::uint32_t fallback) {
  const json::Value* found = get(field);
  if (found == nullptr && fallback <= high) return fallback;
  const auto n = found == nullptr ? fallback : found->to_uint64();
  if (!n || *n < low || *n > high) {
    fail(field,
         "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
             (found == nullptr ? ", not its default of " + std::to_string(fallback)
                               : but_is(*found)));
    return low;
  }
  return static_cast<std::uint32_t>(*n);
}

std::uint32_t ConfigReader::count_of(std::initializer_list<std::string_view> fields,
                                     std::uint32_t low,
                                     std::uint32_t high) {
  for (const std::string_view field : fields) {
    if (has(field)) return count(field, low, high);
  }
  return count(*fields.begin(), low, high);
}

std::uint32_t ConfigReader::count_of_or(std::initializer_list<std::string_view> fields,
                                        std::uint32_t low,
                                        std::uint32_t high,
                                        std::uint32_t fallback) {
  for (const std::string_view field : fields) {
    if (has(field)) return count(field, low, high);
  }
  return fallback;
}

double ConfigReader::number(std::string_view field, double low, double high) {
  if (!has(field)) {
    fail(field, "is missing");
    return low;
  }
  return number_or(field, low, high, low);
}

double ConfigReader::number_or(std::string_view field, double low, double high, double fallback) {
  const json::Value* found = get(field);
  if (found == nullptr) return fallback;
  const auto n = found->to_double();
  if (!n || !(*n >= low) || !(*n <= high)) {
    fail(field,
         "must be a number from " + number_text(low) + " to " + number_text(high) + but_is(*found));
    return low;
  }
  return *n;
}

bool ConfigReader::flag_or(std::string_view field, bool fallback) {
  const json::Value* found = get(field);
  if (found == nullptr) return fallback;
  if (!found->is_bool()) {
    fail(field, "must be true or false" + but_is(*found));
    return fallback;
  }
  return found->as_bool();
}

std::string ConfigReader::text_or(std::string_view field, std::string_view fallback) {
  const json::Value* found = get(field);
  if (found == nullptr) return std::string(fallback);
  if (!found->is_string()) {
    fail(field, "must be a string" + but_is(*found));
    return std::string(fallback);
  }
  return found->as_string();
}

std::vector<double> ConfigReader::numbers(std::string_view field,
                                          std::size_t size,
                                          double low,
                                          double high) {
  const json::Value* found = get(field);
  std::vector<double> out(size, low);
  if (found == nullptr || !found->is_array() || found->as_array().size() != size) {
    fail(field, "must be a list of " + std::to_string(size) + " numbers");
    return out;
  }
  for (std::size_t i = 0; i < size; ++i) {
    const auto n = found->as_array()[i].to_double();
    if (!n || !(*n >= low) || !(*n <= high)) {
      fail(field,
           "must hold numbers from " + number_text(low) + " to " + number_text(high) +
               but_is(found->as_array()[i]));
      return out;
    }
    out[i] = *n;
  }
  return out;
}

std::vector<std::string> ConfigReader::texts_or_empty(std::string_view field,
                                                      std::size_t size_max) {
  std::vector<std::string> out;
  const json::Value* found = get(field);
  if (found == nullptr) return out;
  if (!found->is_array() || found->as_array().size() > size_max) {
    fail(field, "must be a list of at most " + std::to_string(size_max) + " strings");
    return out;
  }
  for (const json::Value& entry : found->as_array()) {
    if (!entry.is_string()) {
      fail(field, "must hold strings" + but_is(entry));
      return {};
    }
    out.push_back(entry.as_string());
  }
  return out;
}

std::vector<std::uint32_t> ConfigReader::counts_or_empty(std::string_view field,
                                                         std::size_t size_max,
                                                         std::uint32_t high) {
  std::vector<std::uint32_t> out;
  const json::Value* found = get(field);
  if (found == nullptr) return out;
  if (!found->is_array() || found->as_array().size() > size_max) {
    fail(field, "must be a list of at most " + std::to_string(size_max) + " numbers");
    return out;
  }
  for (const json::Value& entry : found->as_array()) {
    const auto n = entry.to_uint64();
    if (!n || *n > high) {
      fail(field, "must hold whole numbers from 0 to " + std::to_string(high) + but_is(entry));
      return {};
    }
    out.push_back(static_cast<std::uint32_t>(*n));
  }
  return out;
}

ConfigReader ConfigReader::object(std::string_view field) {
  const json::Value* found = get(field);
  if (found == nullptr || !found->is_object())
    fail(field, found == nullptr ? "is missing" : "must be an object");
  const bool usable = found != nullptr && found->is_object();
  return {usable ? *found : empty_object(), where_ + std::string(field) + "."};
}

}  // namespace coxswain::model
