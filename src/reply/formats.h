#pragma once
// What is known of each format, by tables.

#include <span>
#include <string_view>

#include "reply/answer.h"

namespace coxswain::reply {

using Texts = std::span<const std::string_view>;

struct CallFormat {
  ToolFormat format = ToolFormat::kNone;
  std::string_view name;
  Texts openers = {};  // texts that open a call's frame
  Texts inner = {};    // other texts of frames, which may be special tokens
  // Reads a call behind openers[opener].
  Reading<Outcome> (*read)(Answer& answer, int opener) = nullptr;
  // Reads calls that no marker opens, where the answer begins.
  Reading<Outcome> (*read_bare)(Answer& answer) = nullptr;
};

struct ReasoningStyle {
  ReasoningFormat format = ReasoningFormat::kNone;
  std::string_view name;
  // What frames thoughts. Models write it in several ways; the first is the one that grammars ask for.
  Texts open = {};
  Texts close = {};
  std::string_view label = {};  // behind `open`
  // What frames the text behind thoughts; it has no meaning elsewhere.
  std::string_view response_open = {};
  std::string_view response_close = {};
  Texts dropped = {};                   // frames of the text that is no reasoning
  std::string_view content_begin = {};  // of `dropped`, what grammars put before that text
  // For an answer of messages, each with a header: reads one behind openers[opener], kStart, or inside of thoughts.
  Texts openers = {};
  Texts inner = {};             // other texts of headers, which may be special tokens
  std::string_view start = {};  // begins the answer if the prompt holds the rest of the opener
  Reading<Outcome> (*read)(Answer& answer, int opener) = nullptr;
};

// Behind a style's `start`, and inside of thoughts.
inline constexpr int kStart = -1;
inline constexpr int kInThoughts = -2;

std::span<const CallFormat> call_formats();
std::span<const ReasoningStyle> reasoning_styles();
const CallFormat& call_format(ToolFormat format);
const ReasoningStyle& reasoning_style(ReasoningFormat format);

}  // namespace coxswain::reply
