#pragma once
// Puts parts together: joins neighbours of one kind and drops white space around frames.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reply/parser.h"

namespace coxswain::reply {

class Sink {
 public:
  // Where parts go until the next call; what lies there already is not joined to.
  void attach(std::vector<Part>& out);

  // White space is kept back until what follows says whether it stands before a frame.
  void text(std::string_view text);
  void text(char c) { text_byte(c); }
  void reasoning(char c) { append(Part::Kind::kReasoning, c); }
  // What follows is another message than the text before: a blank line parts them.
  void begin_message() { parts_messages_ = said_; }
  void begin_call(std::string_view name, std::string_view id);
  void arguments(char c) { append(Part::Kind::kArguments, c); }
  void arguments(std::string_view text);

  // A frame has ended here: white space before and behind is dropped.
  void frame();
  // White space that was kept back is text after all.
  void flush();

  // Whether there was no text but white space since the beginning or the last frame.
  bool fresh() const { return fresh_; }

 private:
  void text_byte(char c);
  void append(Part::Kind kind, char c);

  std::vector<Part>* out_ = nullptr;
  std::size_t first_ = 0;  // of the parts in *out_ that may be joined to
  std::string space_;      // kept back
  bool fresh_ = true;
  bool drop_space_ = false;
  bool said_ = false;  // text, since the beginning or the last call
  bool parts_messages_ = false;
};

}  // namespace coxswain::reply
