#pragma once
// coxswain migrate: what the command line of another server is with our launcher.

#include <span>
#include <string_view>

#include <coxswain/status.h>

namespace coxswain::apps {

// The words behind `migrate`. Prints on stdout.
// Errors: kInvalidArgument for words that are not understood; kNotFound for a file that cannot be read.
Status migrate_words(std::span<const std::string_view> words);

}  // namespace coxswain::apps
