#pragma once
// Digest: what a hub names a file's content by. SHA-256 of the bytes for large files (64 digits), else the id of git's
// blob, SHA-1 over "blob SIZE\0" and the bytes (40 digits).
//
// Thread rule: one thread.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace coxswain::hub {

class Digest {
 public:
  // Of the kind of `expected`, 64 or 40 digits, for a content of size_bytes.
  Digest(std::string_view expected, std::uint64_t size_bytes);
  ~Digest();

  void add(std::string_view bytes);
  std::string hex();  // once, after the last byte

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coxswain::hub
