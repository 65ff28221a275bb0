#pragma once
// What the readers of all formats share: the answer's text, its parts, and the steps that frames are made of.
//
// A reader of a call begins behind the marker that opens it, while Source holds what was taken since. It ends as
//   kRead     a frame was understood, to its end;
//   kNot      what was held is text, and so is what follows;
//   kBroken   a call began and broke off: its arguments stay as far as they came, what follows is text.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reply/parser.h"
#include "reply/reading.h"
#include "reply/sink.h"
#include "reply/source.h"

namespace coxswain::reply {

enum class Outcome : std::uint8_t { kRead, kNot, kBroken };

struct Answer {
  Source source;
  Sink sink;
  std::shared_ptr<const std::vector<Tool>> tools;
  // Of formats whose messages hold thoughts and calls alike: which of them are told apart from text.
  bool reads_calls = false;
  bool reads_thoughts = false;

  const Tool* tool_named(std::string_view name) const;
  // A call is certain: its frame is no text any more.
  void begin_call(std::string_view name, std::string_view id);
};

// Takes `text` if it comes next, otherwise nothing.
Reading<bool> literal(Answer& answer, std::string_view text);
// Takes the one of `markers` that comes next; its index, or -1 and nothing is taken. REQUIRES: at most 32 markers, none
// of which begins another.
Reading<int> marker(Answer& answer, std::span<const std::string_view> markers);
Reading<Done> skip_space(Answer& answer);
// A function's name as formats without quotes spell it; may be empty.
Reading<std::string> word(Answer& answer);

// Everything up to `end`, which is taken too; false if the answer ends first (all of it is taken then).
Reading<bool> until(Answer& answer, std::string_view end, std::string& text);

// A byte of JSON. Within strings, control characters come out escaped.
void append_json_byte(std::string& json, char c, bool in_string);

// Passes a JSON object on as arguments of the call that has begun. REQUIRES: '{' comes next.
Reading<Outcome> stream_arguments(Answer& answer);
// Begins a call if a JSON object comes next, behind white space, and passes it on.
Reading<Outcome> named_call(Answer& answer, std::string_view name, std::string_view id);

}  // namespace coxswain::reply
