#pragma once
// OriginRuns: for each byte of a changed text the place in the input that it came from, as runs of
// one kind: a long run costs as much as a short one.
//
// A run is either the input's own bytes, of which each belongs to the whole character there, or
// units of one length that each stand for equally many bytes of the input, one after the other.
// Thread rule: one thread, also for const methods (look-ups remember where they were).

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace coxswain::tokenizer {

// [begin, end) in bytes of the input; 32 bits, because texts are bounded.
struct Origin {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

class OriginRuns {
 public:
  std::size_t size() const { return size_; }  // bytes of the text

  // Adds n_bytes of the input from `begin` on as they are. REQUIRES: whole characters.
  void add_same(std::size_t n_bytes, std::size_t begin);
  // Adds n_bytes that all stand for `origin`.
  void add_unit(std::size_t n_bytes, Origin origin);
  // Adds what bytes [begin, end) of another text have; both are between characters.
  void add_part(const OriginRuns& other, std::size_t begin, std::size_t end);

  // What byte `at` of `text`, whose places these are, stands for. REQUIRES: at < size().
  Origin at(std::string_view text, std::size_t at) const;

 private:
  struct Run {
    std::uint32_t begin = 0;         // in the text
    std::uint32_t unit_bytes = 0;    // 0: the input's own bytes
    std::uint32_t origin_begin = 0;  // in the input
    std::uint32_t origin_bytes = 0;  // of a unit
  };
  std::size_t end_of(std::size_t run) const {
    return run + 1 < runs_.size() ? runs_[run + 1].begin : size_;
  }
  std::size_t find(std::size_t at) const;
  void add_run_part(const Run& run, std::size_t begin, std::size_t end);

  std::vector<Run> runs_;
  std::size_t size_ = 0;
  mutable std::size_t last_ = 0;  // the run that was found last
};

}  // namespace coxswain::tokenizer
