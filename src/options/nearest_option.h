#pragma once
// The option that a mistyped one was probably meant to be.
//
// Thread rule: pure function.

#include <string>
#include <string_view>

#include "options/option_spec.h"

namespace coxswain::options {

// "--model-id" for `--model_id`, `--modelid`, `--model-idd` and `--model`: case and dashes do not count, one typing
// error in eight letters is forgiven, and a beginning is enough where it fits one option alone. Empty if nothing is
// near. `word`: as typed, without a value.
std::string nearest_option(Binary binary, std::string_view word);

}  // namespace coxswain::options
