#pragma once
// coxswain pull: brings a model of the hub into the hub's cache on this machine.

#include <span>
#include <string_view>

#include <coxswain/status.h>

namespace coxswain::apps {

// The words behind `pull`. Prints the model's folder on stdout, how far it is on stderr.
// Errors: kInvalidArgument for words that are not understood; those of hub::download_model.
Status pull_model(std::span<const std::string_view> words);

}  // namespace coxswain::apps
