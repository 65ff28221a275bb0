#pragma once
// The text of an answer as far as it came, for readings that wait for more.

#include <coroutine>
#include <cstddef>
#include <string>
#include <string_view>

#include "reply/reading.h"

namespace coxswain::reply {

class Source {
 public:
  static constexpr int kEnd = -1;

  // The byte `distance` behind the next one, or kEnd; waits until that is known.
  class Ahead {
   public:
    Ahead(Source& source, std::size_t distance) : source_(source), distance_(distance) {}
    bool await_ready() const noexcept { return source_.knows(distance_); }
    template <typename Promise>
    void await_suspend(std::coroutine_handle<Promise> reading) const noexcept {
      source_.awaited_ = distance_;
      reading.promise().driver->wait();
    }
    int await_resume() const noexcept { return source_.at(distance_); }

   private:
    Source& source_;
    std::size_t distance_;
  };

  void append(std::string_view text);
  void end() { ended_ = true; }

  Ahead ahead(std::size_t distance) { return {*this, distance}; }
  Ahead next() { return {*this, 0}; }
  // Whether the reading that waits can go on.
  bool ready() const { return knows(awaited_); }
  // Takes the next byte. REQUIRES: next() was no kEnd.
  char take();
  // REQUIRES: that many are there.
  void skip(std::size_t n_bytes);

  // From here on, what is taken is kept, because it may turn out to be text.
  void hold();
  void drop_held();
  // What was taken since hold(); nothing is held any more.
  std::string release();

 private:
  bool knows(std::size_t distance) const { return ended_ || at_ + distance < text_.size(); }
  int at(std::size_t distance) const {
    return at_ + distance < text_.size() ? static_cast<unsigned char>(text_[at_ + distance]) : kEnd;
  }

  std::string text_;
  std::size_t at_ = 0;
  std::size_t awaited_ = 0;  // distance of the byte that the reading waits for
  bool ended_ = false;
  std::string held_;
  bool holding_ = false;
};

}  // namespace coxswain::reply
