#include "reply/source.h"

#include <utility>

namespace coxswain::reply {

void Source::append(std::string_view text) {
  text_.erase(0, at_);
  at_ = 0;
  text_.append(text);
}

char Source::take() {
  const char c = text_[at_++];
  if (holding_) held_ += c;
  return c;
}

void Source::skip(std::size_t n_bytes) {
  if (holding_) held_.append(text_, at_, n_bytes);
  at_ += n_bytes;
}

void Source::hold() {
  held_.clear();
  holding_ = true;
}

void Source::drop_held() {
  held_.clear();
  holding_ = false;
}

std::string Source::release() {
  holding_ = false;
  return std::exchange(held_, {});
}

}  // namespace coxswain::reply
