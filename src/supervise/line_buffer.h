#pragma once
// LineBuffer: cuts a byte stream into lines, however the reads fall. A line longer than the limit
// is cut there and the rest of it dropped, so a child that prints without end costs bounded memory.
//
// Thread rule: one thread.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::supervise {

class LineBuffer {
 public:
  explicit LineBuffer(std::size_t line_bytes_max) : line_bytes_max_(line_bytes_max) {}

  // Complete lines, without their line feed (and carriage return).
  std::vector<std::string> push(std::string_view bytes);
  // What is left after the end of the stream; empty if nothing.
  std::string take_rest();

 private:
  std::size_t line_bytes_max_;
  std::string pending_;
};

}  // namespace coxswain::supervise
