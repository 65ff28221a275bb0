#pragma once
// StopHoldback keeps back streamed text that may turn out to be the beginning of a stop string, or of the text of a
// stop sequence of ids, so that a client below /v1, or of the library, never sees any part of one.
//
// Thread rule: one thread. Memory: shorter than the longest of these plus one piece.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/step_runner.h>
#include <coxswain/types.h>

namespace coxswain::request {

// What a finished text does with the stop that ended it.
enum class StopText : std::uint8_t { kCut, kKept };

class StopHoldback {
 public:
  // `id_stops`: sequences of ids, none of them empty; whoever gives some says the id of each piece.
  explicit StopHoldback(std::vector<std::string> stops,
                        std::vector<std::vector<TokenId>> id_stops = {},
                        StopText stop_text = StopText::kCut);

  // Takes the next piece of text and returns what may be sent now.
  std::string push(std::string_view piece, TokenId id = kNoId);
  // Takes the last piece instead of push() and returns what is left to send; the stop string, or the text of the ids,
  // that ended the sequence is cut off, or kept, and what follows it is cut off.
  std::string finish(std::string_view last_piece, const SequenceFinish& finish, TokenId id = kNoId);

 private:
  static constexpr TokenId kNoId = -1;
  struct Mark {
    TokenId id;
    std::size_t begin;  // of its text, in bytes of all text
  };
  enum class Match : std::uint8_t { kBeginning, kWhole };

  void note(TokenId id);
  std::size_t held_suffix() const;
  std::size_t id_stop_begin(Match match) const;

  std::vector<std::string> stops_;
  StopText stop_text_;
  std::vector<std::vector<TokenId>> id_stops_;
  std::size_t marks_max_ = 0;  // ids of the longest
  std::deque<Mark> marks_;     // of the last pieces
  std::string held_;
  std::size_t n_sent_ = 0;  // bytes
};

// The text of a finished sequence without the stop string that ended it.
std::string_view text_before_stop(const SequenceFinish& finish);
// The same with the stop string. `stops`: those of the sequence; none of them: all of the text is a stop's.
std::string_view text_through_stop(const SequenceFinish& finish,
                                   std::span<const std::string> stops);

}  // namespace coxswain::request
