#pragma once
// A strict reader of the part of TOML 1.0 that experiment templates use, as a JSON value: tables [a.b], bare and quoted
// keys, strings on one line, integers, finite reals, booleans, arrays over any number of lines, inline tables. Dates,
// arrays of tables, dotted keys, strings over several lines and numbers in other bases are refused by name, as are
// repeated keys and tables.
//
// Thread rule: none.

#include <string_view>

#include <coxswain/status.h>

#include "json/json.h"

namespace coxswain::fleet {

// An object. Errors: kInvalidArgument with the line.
Result<json::Value> parse_toml(std::string_view text);

}  // namespace coxswain::fleet
