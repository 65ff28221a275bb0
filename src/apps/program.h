#pragma once
// Verbs of coxswain that other programs have: this process becomes one of them.

#include <span>
#include <string_view>

namespace coxswain::apps {

// The program of that name beside this one, with these words. Returns an exit code only if it cannot be started.
int become(std::string_view program, std::span<const std::string_view> words);

// text-generation-launcher for a user of this machine alone: [MODEL] [its options], on the loopback unless they have a
// --hostname, with warnings as the only log unless LOG_LEVEL says otherwise.
int serve_model(std::span<const std::string_view> words);

// Likewise with --plan: what would be started, and where its memory would go.
int plan_model(std::span<const std::string_view> words);

}  // namespace coxswain::apps
