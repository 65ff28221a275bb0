#pragma once
// ConfigReader: checked access to config.json. The first wrong value is kept as the status and
// names its field; later reads then return their defaults, so that a family file reads straight
// through and asks once.
//
// null counts as absent, as in published configs; where a family tells the two apart, says_null() does.
//
// Thread rule: one thread; the value must outlive the reader.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "json/json.h"

namespace coxswain::model {

class ConfigReader {
 public:
  // `where` stands before each field in messages: "config.json: " or "config.json: rope_scaling.".
  ConfigReader(const json::Value& value, std::string where)
      : value_(value), where_(std::move(where)) {}

  // Of a config without fields.
  static ConfigReader empty();

  const Status& status() const { return status_; }
  bool has(std::string_view field) const { return get(field) != nullptr; }
  const json::Value* get(std::string_view field) const;  // null if absent or null
  // The field is there and null: "off" in families whose default is on.
  bool says_null(std::string_view field) const;

  // Required whole number in [low, high].
  std::uint32_t count(std::string_view field, std::uint32_t low, std::uint32_t high);
  // The same where it may be absent; a fallback above `high` is an error, too.
  std::uint32_t count_or(std::string_view field,
                         std::uint32_t low,
                         std::uint32_t high,
                         std::uint32_t fallback);
  // The first of several spellings that is there.
  std::uint32_t count_of(std::initializer_list<std::string_view> fields,
                         std::uint32_t low,
                         std::uint32_t high);
  std::uint32_t count_of_or(std::initializer_list<std::string_view> fields,
                            std::uint32_t low,
                            std::uint32_t high,
                            std::uint32_t fallback);
  double number(std::string_view field, double low, double high);
  double number_or(std::string_view field, double low, double high, double fallback);
  bool flag_or(std::string_view field, bool fallback);
  std::string text_or(std::string_view field, std::string_view fallback);
  // Numbers in [low, high]; `size` elements exactly.
  std::vector<double> numbers(std::string_view field, std::size_t size, double low, double high);
  std::vector<std::string> texts_or_empty(std::string_view field, std::size_t size_max);
  std::vector<std::uint32_t> counts_or_empty(std::string_view field,
                                             std::size_t size_max,
                                             std::uint32_t high);

  // A required object field; an empty object if it is missing (and the status says so).
  ConfigReader object(std::string_view field);
  // Takes over the failure of a reader made by object().
  void join(const ConfigReader& inner) {
    if (status_.ok()) status_ = inner.status_;
  }
  void fail(std::string_view field, const std::string& what);
  // For a legal value that is not supported: kUnimplemented instead of kInvalidArgument.
  void unsupported(std::string_view field, const std::string& what);

 private:
  const json::Value& value_;
  std::string where_;
  Status status_;
};

// Limits that every family shares; above them a config is damaged or hostile, not a model.
inline constexpr std::uint32_t kLayersMax = 1000;
inline constexpr std::uint32_t kHiddenMax = 65536;
inline constexpr std::uint32_t kIntermediateMax = 1U << 20;
inline constexpr std::uint32_t kVocabMax = 2'000'000;
inline constexpr std::uint32_t kPositionsMax = 1U << 24;
inline constexpr std::uint32_t kHeadsMax = 4096;
inline constexpr std::uint32_t kHeadDimMax = 4096;
inline constexpr std::uint32_t kExpertsMax = 4096;
// Of all layers together: each has a map of its tensors before any tensor is looked for.
inline constexpr std::uint32_t kExpertsOfModelMax = 1U << 16;

}  // namespace coxswain::model
