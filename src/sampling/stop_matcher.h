#pragma once
// StopMatcher: finds stop strings anywhere in a text that arrives in pieces.
//
// A stop string may begin and end inside tokens and span any number of them. Only the last bytes
// that a match could still need are kept: the longest stop string less one.
//
// A pure function of the stop strings and the text so far, however it was cut into pieces, except
// that the whole piece in which a match ends is part of the text (a token is never taken back).
// Thread rule: belongs to the thread that owns the sequence.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::sampling {

class StopMatcher {
 public:
  struct Match {
    std::size_t begin = 0;       // bytes of the whole text before the stop string
    std::size_t stop_index = 0;  // which stop string

    friend bool operator==(const Match&, const Match&) = default;
  };

  StopMatcher() = default;
  // Empty strings never match.
  explicit StopMatcher(std::span<const std::string> stops);

  bool empty() const { return longest_ == 0; }

  // The match that ends first in the text so far plus `piece`; of those that end there, the one
  // that begins first. REQUIRES: no match was returned before.
  std::optional<Match> push(std::string_view piece);

 private:
  std::vector<std::string> stops_;
  std::size_t longest_ = 0;
  std::string window_;            // the end of the text so far
  std::size_t window_begin_ = 0;  // its place in the whole text
};

}  // namespace coxswain::sampling
