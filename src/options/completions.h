#pragma once
// What shells and man know of the programs' options, written from the option table.
//
// Thread rule: pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "options/option_spec.h"

namespace coxswain::options {

enum class Shell : std::uint8_t { kBash, kZsh, kFish };
std::optional<Shell> shell_of(std::string_view name);  // "bash", "zsh", "fish"

// Completions of all programs, one script.
std::string completion_script(Shell shell);

// In roff, section 1.
std::string man_page(Binary binary);

}  // namespace coxswain::options
