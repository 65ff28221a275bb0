#pragma once
// Harmony (gpt-oss): an answer of messages, <|start|>assistant HEADER<|message|>BODY<|end|>, whose first begins in the
// prompt. The header names a channel behind <|channel|>: what is said on "analysis" is thought, all else is for the
// user. It may name a recipient, to=functions.NAME, before the channel or behind it: the body is a call's arguments.

#include "reply/answer.h"

namespace coxswain::reply {

// Behind kHarmonyOpeners[opener], kStart or kInThoughts (formats.h): a header, and a message that is no text. Thoughts
// are read as such if Answer::reads_thoughts, calls if Answer::reads_calls.
Reading<Outcome> read_harmony(Answer& answer, int opener);

inline constexpr std::string_view kHarmonyOpeners[] = {"<|start|>", "<|channel|>"};
inline constexpr std::string_view kHarmonyEnds[] = {"<|end|>", "<|return|>", "<|call|>"};
inline constexpr std::string_view kHarmonyInner[] = {"<|message|>", "<|constrain|>"};
inline constexpr std::string_view kHarmonyStart = "to=";

}  // namespace coxswain::reply
