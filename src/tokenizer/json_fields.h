#pragma once
// Reading members of a tokenizer file with errors that name them. Thread rule: pure functions.

#include <optional>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "json/json.h"

namespace coxswain::tokenizer {

// "where: member "name" must be ..."
Status field_error(const std::string& where, std::string_view name, std::string_view must_be);

// A member that must be there.
Result<std::string> string_field(const json::Value& object,
                                 std::string_view name,
                                 const std::string& where);
// One that must be a single character.
Result<std::string> character_field(const json::Value& object,
                                    std::string_view name,
                                    const std::string& where);
// Members that may be absent or null.
Result<std::string> string_field_or(const json::Value& object,
                                    std::string_view name,
                                    std::string fallback,
                                    const std::string& where);
Result<std::optional<std::string>> optional_string_field(const json::Value& object,
                                                         std::string_view name,
                                                         const std::string& where);
Result<bool> bool_field(const json::Value& object,
                        std::string_view name,
                        bool fallback,
                        const std::string& where);
Result<std::int64_t> integer_field(const json::Value& object,
                                   std::string_view name,
                                   std::int64_t fallback,
                                   const std::string& where);

// The member "pattern": {"String": "..."} or {"Regex": "..."}.
struct Pattern {
  std::string text;
  bool is_regex = false;
};
Result<Pattern> pattern_field(const json::Value& object, const std::string& where);

}  // namespace coxswain::tokenizer
