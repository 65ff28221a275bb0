#pragma once
// tojson: what Python's json.dumps prints, as the Hugging Face libraries call it (ensure_ascii off unless asked for).
//
// Thread rule: pure function.

#include <cstddef>
#include <optional>
#include <string>

#include "chat/value.h"

namespace coxswain::chat {

struct ToJsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;                              // one level; none = one line
  std::optional<std::pair<std::string, std::string>> separators;  // between items, after keys
  std::size_t bytes_max = std::size_t{8} << 20;
};

// The whole result is marked if anything in it was. Throws RenderError where it gets longer than bytes_max:
// indentation makes a long text of a small value.
Text to_json(const Value& value, const ToJsonOptions& options);

}  // namespace coxswain::chat
