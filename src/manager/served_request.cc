#include "manager/served_request.h"

#include <utility>

#include "manager/request_tensors.h"

namespace coxswain::manager {

ServedRequest::ServedRequest(News& news,
                             std::uint64_t id,
                             std::vector<Answer> answers,
                             std::uint32_t n_beams)
    : news_(news), id_(id), n_beams_(n_beams), n_open_(answers.size()), n_untold_(answers.size()) {
  parts_.reserve(answers.size());
  for (Answer& answer : answers) parts_.push_back({.answer = std::move(answer), .n_open = n_beams});
}

void ServedRequest::on_event(batch::TokenEvent event) {
  Part& part = parts_[event.sequence / n_beams_];
  part.answer.add(event, event.sequence % n_beams_);
  if (event.final) {
    if (--part.n_open == 0) --n_open_;
    const bool as_asked = stopped_ && event.status.code() == Code::kCancelled;
    if (!event.status.ok() && !as_asked) fail(in_tensor_words(event.status).message());
  }
  list();
}

void ServedRequest::list() {
  if (std::exchange(listed_, true)) return;
  news_.push_back(shared_from_this());
}

bool ServedRequest::has_news(std::uint32_t sequence) const {
  const Part& part = parts_[sequence];
  return part.ended() ? !part.told : part.answer.streams() && part.answer.has_news();
}

std::vector<NamedTensor> ServedRequest::take(std::uint32_t sequence) {
  Part& part = parts_[sequence];
  if (part.ended() && !std::exchange(part.told, true)) --n_untold_;
  return part.answer.take();
}

void ServedRequest::fail(std::string error) {
  if (!error_.empty()) return;
  error_ = error.empty() ? "the request failed" : std::move(error);
}

}  // namespace coxswain::manager
