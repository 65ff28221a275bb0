#pragma once
// OriginRuns: for each byte of a changed text the place in the input that it came from, as runs of
// one kind: a long run costs as much as a short one, two to four bytes.
//
// A run is either bytes that stand for as many bytes of the input, of which each belongs to the whole
// character there, or units of one length that each stand for equally many bytes of the input, one
// after the other. Runs are kept as small numbers: their length, and how far behind the run before
// their place begins if it does not begin right there. Marks at regular distances lead to the run of
// any byte. Thread rule: one thread, also for const methods (look-ups remember where they were).

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
  std::size_t size() const { return last_.end; }  // bytes of the text

  // Adds n_bytes that stand for as many bytes of the input, from `begin` on. REQUIRES: whole
  // characters, each as long as what it stands for.
  void add_same(std::size_t n_bytes, std::size_t begin);
  // Adds n_bytes that all stand for `origin`.
  void add_unit(std::size_t n_bytes, Origin origin);
  // Adds what bytes [begin, end) of another text have; both are between characters.
  void add_part(const OriginRuns& other, std::size_t begin, std::size_t end);

  // What byte `at` of `text`, whose places these are, stands for. REQUIRES: at < size().
  Origin at(std::string_view text, std::size_t at) const;

 private:
  struct Run {
    std::uint32_t begin = 0;  // in the text
    std::uint32_t end = 0;
    std::uint32_t unit_bytes = 0;    // 0: bytes that stand for bytes
    std::uint32_t origin_begin = 0;  // in the input
    std::uint32_t origin_bytes = 0;  // of a unit

    bool has(std::size_t at) const { return begin <= at && at < end; }
    // Where in the input a run begins that goes on right behind this one.
    std::uint32_t origin_end() const;
  };
  // A run in encoded_, and what one must know to read on from there.
  struct Cursor {
    Run run;
    std::size_t next = 0;  // where the next run begins in encoded_
  };
  struct Mark {
    std::uint32_t encoded_at = 0;
    std::uint32_t begin = 0;         // of its run in the text
    std::uint32_t origin_begin = 0;  // where its run begins if it goes on
  };

  void start(const Run& run);
  void close_last();
  void step(Cursor& cursor) const;
  const Run& find(std::size_t at) const;
  void add_run_part(const Run& run, std::size_t begin, std::size_t end);

  std::vector<std::uint8_t> encoded_;  // all runs but the last
  std::vector<Mark> marks_;            // of every kRunsPerMark-th run in encoded_
  std::size_t n_encoded_ = 0;          // runs
  std::uint32_t encoded_origin_end_ = 0;
  Run last_;              // may still grow; empty if there is none
  mutable Cursor found_;  // by the look-up before
};

}  // namespace coxswain::tokenizer
