#pragma once
// `text-generation-server quantize`.
//
// Thread rule: the thread of main().

#include <span>
#include <string_view>

namespace coxswain::apps {

// Returns the exit code.
int quantize_model(std::span<const std::string_view> words);

}  // namespace coxswain::apps
