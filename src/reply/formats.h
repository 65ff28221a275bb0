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
  std::string_view open = {};
  std::string_view close = {};
  Texts dropped = {};  // frames of the text that is no reasoning
};

std::span<const CallFormat> call_formats();
std::span<const ReasoningStyle> reasoning_styles();
const CallFormat& call_format(ToolFormat format);
const ReasoningStyle& reasoning_style(ReasoningFormat format);

}  // namespace coxswain::reply
