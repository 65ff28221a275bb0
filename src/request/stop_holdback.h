#pragma once
// StopHoldback keeps back streamed text that may turn out to be the beginning of a stop string, so
// that a client below /v1 never sees any part of one.
//
// Thread rule: one thread. Memory: shorter than the longest stop string plus one piece.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/step_runner.h>

namespace coxswain::request {

class StopHoldback {
 public:
  explicit StopHoldback(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Takes the next piece of text and returns what may be sent now.
  std::string push(std::string_view piece);
  // Takes the last piece instead of push() and returns what is left to send; the stop string that
  // ended the sequence is cut off, with what follows it. Of a stop sequence of ids, what was handed out stays.
  std::string finish(std::string_view last_piece, const SequenceFinish& finish);

 private:
  std::size_t held_suffix() const;

  std::vector<std::string> stops_;
  std::string held_;
  std::size_t n_sent_ = 0;  // bytes
};

// The text of a finished sequence without the stop string that ended it.
std::string_view text_before_stop(const SequenceFinish& finish);

}  // namespace coxswain::request
