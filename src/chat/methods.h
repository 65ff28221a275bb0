#pragma once
// Methods of strings; methods.cc has those of lists and mappings, and the look-up of all.

#include <string_view>

#include "chat/value.h"

namespace coxswain::chat {

// The method `name` bound to a string; undefined if there is none.
Value find_text_method(const Value& object, std::string_view name);

}  // namespace coxswain::chat
