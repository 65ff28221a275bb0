#pragma once
// coxswain chat: a conversation with a model of this machine, in the terminal, computed by this process.

#include <span>
#include <string_view>

#include <coxswain/status.h>

namespace coxswain::apps {

// The words behind `chat`. Reads messages from stdin, a line each, until its end, and streams the answers to stdout. On
// a terminal lines are edited and remembered, thoughts are dim, and SIGINT ends the answer that comes, nothing else.
// Errors: kInvalidArgument for words that are not understood; those of open_model().
Status chat_with_model(std::span<const std::string_view> words);

}  // namespace coxswain::apps
