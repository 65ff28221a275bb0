// How sequences end: out of the plans, their blocks back, one final event each.

#include <algorithm>
#include <utility>

#include "batch/engine_core.h"

namespace coxswain::batch {

void EngineCore::fail(Sequence& s, Status status) {
  TokenEvent event;
  event.status = std::move(status);
  end(s, Outcome::kFailed, std::move(event));
}

// From here on the sequence is in no plan.
void EngineCore::end(Sequence& s, Outcome outcome, TokenEvent event) {
  if (s.state == SequenceState::kEnding) return;
  ++n_ended_;
  if (outcome == Outcome::kFinished) dynamic_batch_.note(s.n_prompt, s.n_produced());
  s.ended_step = applied_step_;
  leave_lists(s);
  if (s.request.deadline) deadlines_.erase({*s.request.deadline, s.id});
  if (tier_ != nullptr && s.lease) tier_->offload(s);
  s.lease.reset();
  transfers_->close(std::exchange(s.request.adopted_hold, 0));
  drop_beams(s);
  s.state = SequenceState::kEnding;
  if (s.known_to_runner) {
    dropped_.push_back(s.id);
    tells_drops_ = true;
  }
  s.outcome = outcome;
  s.final_event = std::move(event);
  if (s.n_in_flight == 0 || !options_.final_after_retire) send_final(s);
}

// A row of a sequence that has ended has retired.
void EngineCore::retire(Sequence& s) {
  if (s.n_in_flight > 0) return;
  if (!s.answered) return send_final(s);
  --n_retiring_;
  bury(s);
}

void EngineCore::bury(Sequence& s) {
  const auto it = sequences_.find(key_of(s.id));
  gone_.push_back(std::move(it->second));
  sequences_.erase(it);
}

void EngineCore::send_final(Sequence& s) {
  switch (s.outcome) {
    case Outcome::kFinished:
      ++stats_.finished;
      break;
    case Outcome::kFailed:
      ++stats_.failed;
      break;
    case Outcome::kCancelled:
      ++stats_.cancelled;
      break;
  }
  std::vector<TokenEvent> finals;
  if (s.beams == nullptr) {
    s.final_event.sequence = s.index;
    s.final_event.n_generated = s.n_produced();
    s.final_event.cumulative_logprob = s.cumulative_logprob;
    finals.push_back(std::move(s.final_event));
  } else {
    finals = final_beam_events(s);
  }
  leave_request(s);
  s.answered = true;
  std::shared_ptr<TokenSink> sink = std::move(s.sink);
  if (s.n_in_flight == 0) {
    bury(s);
  } else {
    ++n_retiring_;
  }
  for (TokenEvent& event : finals) {
    event.final = true;
    event.drafts = s.drafts;
    stamp(event, s);
    events_.push_back({sink, std::move(event)});
  }
}

void EngineCore::stamp(TokenEvent& event, const Sequence& s) {
  event.n_cached_prompt_tokens = s.n_cached_prompt_tokens;
  event.queued_at = s.queued_at;
  event.scheduled_at = s.scheduled_at;
  event.first_token_at = s.first_token_at;
}

// Answered: with the last of its sequences the request is.
void EngineCore::leave_request(Sequence& s) {
  if (s.siblings != nullptr) {
    auto& open = s.siblings->open;
    std::erase(open, &s);
    if (!open.empty()) {
      by_request_[key_of(s.request.id)] = open.front();
      return;
    }
  }
  by_request_.erase(key_of(s.request.id));
  hooks_.before_final_event(s.request.id);
}

}  // namespace coxswain::batch
