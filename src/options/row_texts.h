#pragma once
// One row of the option table as words: for --help and for man pages.
//
// Thread rule: pure functions.

#include <string>
#include <string_view>

#include "options/option_spec.h"

namespace coxswain::options {

// "N", "TEXT", "true|false", the choices; empty for a flag.
std::string value_word(const OptionSpec& spec);

// "Not supported yet: why"; empty for a live option.
std::string status_note(const OptionSpec& spec);

// What it does, what holds without it and where else it may stand, in one paragraph.
std::string whole_text(const OptionSpec& spec, Binary binary);

// How the program is called, with examples.
std::string usage_text(Binary binary);

}  // namespace coxswain::options
