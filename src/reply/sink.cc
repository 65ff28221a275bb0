#include "reply/sink.h"

#include <utility>

#include "reply/characters.h"

namespace coxswain::reply {

void Sink::attach(std::vector<Part>& out) {
  out_ = &out;
  first_ = out.size();
}

void Sink::text(std::string_view text) {
  for (const char c : text) text_byte(c);
}

void Sink::text_byte(char c) {
  if (is_space(c)) {
    if (!drop_space_) space_ += c;
    return;
  }
  flush();
  if (std::exchange(parts_messages_, false)) {
    for (int i = 0; i < 2; ++i) append(Part::Kind::kText, '\n');
  }
  drop_space_ = false;
  fresh_ = false;
  said_ = true;
  append(Part::Kind::kText, c);
}

void Sink::begin_call(std::string_view name, std::string_view id) {
  frame();
  said_ = false;
  out_->push_back({Part::Kind::kCall, std::string(name), std::string(id)});
}

void Sink::arguments(std::string_view text) {
  for (const char c : text) append(Part::Kind::kArguments, c);
}

void Sink::frame() {
  space_.clear();
  fresh_ = true;
  drop_space_ = true;
}

void Sink::flush() {
  for (const char c : space_) append(Part::Kind::kText, c);
  space_.clear();
}

void Sink::append(Part::Kind kind, char c) {
  if (out_->size() == first_ || out_->back().kind != kind) out_->push_back({kind, {}});
  out_->back().text += c;
}

}  // namespace coxswain::reply
