#pragma once
// What the parts of the library that serve chats hand to each other.
//
// Thread rule: values; pure functions.

#include <coxswain/chat.h>
#include <coxswain/status.h>

#include "grammar/compiler.h"
#include "speech/reply_reader.h"

namespace coxswain::library {

struct ReplyForm {
  speech::ReplyOptions options;
};

// Errors: kInvalidArgument, if there is a text where none may be.
Result<grammar::Source> guide_source(const Guide& guide);

}  // namespace coxswain::library
