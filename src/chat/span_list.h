#pragma once
// SpanList: sorted, disjoint, non-empty byte spans. Most texts have none or one; these need no allocation.
//
// Thread rule: a value.

#include <cstddef>
#include <utility>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::chat {

class SpanList {
 public:
  bool empty() const { return size() == 0; }
  std::size_t size() const { return !many_.empty() ? many_.size() : one_.end > one_.begin ? 1 : 0; }
  const TextSpan* begin() const { return many_.empty() ? &one_ : many_.data(); }
  const TextSpan* end() const { return begin() + size(); }

  // One that begins where the last ends becomes part of it. REQUIRES: not empty, and does not begin
  // before the last ends.
  void add(TextSpan span) {
    if (empty()) {
      one_ = span;
      return;
    }
    TextSpan& last = many_.empty() ? one_ : many_.back();
    if (last.end == span.begin) {
      last.end = span.end;
      return;
    }
    if (many_.empty()) {
      many_.reserve(kFirstReserved);
      many_.push_back(one_);
    }
    many_.push_back(span);
  }

  void clear() {
    one_ = {};
    many_.clear();
  }

  std::vector<TextSpan> take() && {
    if (many_.empty() && !empty()) return {one_};
    return std::move(many_);
  }

 private:
  static constexpr std::size_t kFirstReserved = 8;

  TextSpan one_{};                // the only span
  std::vector<TextSpan> many_{};  // all spans, once there are two
};

}  // namespace coxswain::chat
