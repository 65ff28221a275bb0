#include "fleet/stay.h"

#include <algorithm>

namespace coxswain::fleet {

void Stay::on_event(batch::TokenEvent event) {
  batch::SinkEvent one{nullptr, std::move(event)};
  one.sink = shared_from_this();
  fleet_.on_events({&one, 1});
}

batch::GenerationRequest Stay::engine_request(RequestId id) const {
  batch::GenerationRequest out = request_->request;
  out.id = id;
  const bool one_of_several = range_.n < request_->lives.size();
  if (one_of_several && range_.first > 0) out.sampling.seed = out.more_seeds[range_.first - 1];
  if (one_of_several) out.more_seeds.clear();
  if (has_begun()) out.queue_deadline.reset();
  if (range_.n == 1) out.progress = request_->lives[range_.first].progress;
  return out;
}

void Stay::note(const batch::TokenEvent& event) const {
  batch::Progress& progress = life_of(event).progress;
  for (const OutputToken& token : event.tokens) progress.ids.push_back(token.id);
  progress.cumulative_logprob = event.cumulative_logprob;
}

std::optional<TimePoint> Stay::deadline() const {
  const batch::GenerationRequest& request = request_->request;
  if (!request.queue_deadline || has_begun()) return request.deadline;
  return std::min(*request.queue_deadline, request.deadline.value_or(TimePoint::max()));
}

bool Stay::is_prompt() const {
  return range_.n == 1 && !request_->is_beams() && request_->request.cache_prompt &&
         request_->lives[range_.first].progress.empty();
}

bool Stay::can_move() const {
  return range_.n == 1 && !request_->is_beams() && request_->request.cache_prompt &&
         !request_->lives[range_.first].progress.empty();
}

bool Stay::has_begun() const {
  return std::ranges::any_of(request_->lives, &SequenceLife::was_scheduled);
}

Status was_cancelled() {
  return {Code::kCancelled, "the request was cancelled"};
}

void forward_events(std::span<batch::SinkEvent> events) {
  for (std::size_t begin = 0, end = 0; begin < events.size(); begin = end) {
    batch::EventOutlet* const outlet = events[begin].sink->outlet();
    end = begin + 1;
    if (outlet == nullptr) {
      events[begin].sink->on_event(std::move(events[begin].event));
      continue;
    }
    while (end < events.size() && events[end].sink->outlet() == outlet) ++end;
    outlet->on_events(events.subspan(begin, end - begin));
  }
}

}  // namespace coxswain::fleet
