// Requests that come, go and change hands.

#include "fleet/state/replica_stepper.h"

namespace coxswain::fleet {
namespace {

// Takes `n` from a count and `pages` from the pages. False, and nothing is taken, if there are not so many.
bool take(std::uint32_t& count, std::uint32_t n, std::uint32_t& all_pages, std::uint32_t pages) {
  if (n > count || pages > all_pages) return false;
  count -= n;
  all_pages -= pages;
  return true;
}

}  // namespace

Verdict Stepper::on(const WorkAvailable&) {
  const std::uint32_t room = state_.takes_prompts() ? prefill_room() : 0;
  if (room == 0) return Verdict::kIgnored;
  if (state_.assist == Assist::kDonor) {
    want(AskRelay{state_.assisted});
    return Verdict::kDone;
  }
  if (state_.admission != Admission::kOpen) return Verdict::kIgnored;
  want(PullWork{room});
  return Verdict::kDone;
}

// A drain or a loss can come between the pull and what it brings.
Verdict Stepper::on(const WorkTaken& event) {
  if (event.n == 0) return Verdict::kIgnored;
  const bool suits = event.together ? state_.decodes() : state_.takes_prompts();
  const bool takes = state_.admission == Admission::kOpen && suits;
  if (!takes || event.n > prefill_room() || !pages_fit(event.pages)) {
    want(ReturnWork{.work = {.prefilling = event.n}});
    return refuse("no room for what was pulled");
  }
  state_.work.prefilling += event.n;
  take_pages(event.pages);
  return Verdict::kDone;
}

Verdict Stepper::keep_prefilled(std::uint32_t n) {
  if (n == 0) return Verdict::kDone;
  if (state_.decodes()) {
    state_.work.running += n;
  } else {
    state_.work.parked += n;
    want(OfferHandovers{n});
  }
  return Verdict::kDone;
}

Verdict Stepper::on(const PrefillEnded& event) {
  const std::uint64_t n = std::uint64_t{event.n_kept} + event.n_ended;
  if (n == 0 || n > state_.work.prefilling ||
      !take(
          state_.work.prefilling, static_cast<std::uint32_t>(n), state_.pages, event.pages_freed)) {
    return Verdict::kIgnored;
  }
  const Verdict verdict = keep_prefilled(event.n_kept);
  if (state_.admission == Admission::kOpen) {
    if (prefill_room() > 0) want(PullWork{prefill_room()});
  } else if (state_.assist == Assist::kDonor) {
    want(AskRelay{state_.assisted});
  }
  return verdict;
}

Verdict Stepper::on(const HandoverBegan&) {
  if (state_.work.parked == 0) return Verdict::kIgnored;
  --state_.work.parked;
  ++state_.work.outbound;
  return Verdict::kDone;
}

Verdict Stepper::on(const HandoverEnded& event) {
  return take(state_.work.outbound, 1, state_.pages, event.pages_freed) ? Verdict::kDone
                                                                        : Verdict::kIgnored;
}

Verdict Stepper::on(const HandoverAborted&) {
  if (state_.work.outbound == 0) return Verdict::kIgnored;
  --state_.work.outbound;
  return keep_prefilled(1);
}

Verdict Stepper::on(const IngressAsked& event) {
  std::string_view reason;
  if (!state_.ingress.open) reason = "nothing decodes here, or it drains";
  if (state_.ingress.held) reason = "under KV pressure";
  if (event.pages == 0) reason = "a hand-over has pages";
  if (!pages_fit(event.pages)) reason = "no room for its pages";
  if (state_.ingress.inbound >= config_.ingress_slots) reason = "no transfer slot";
  if (!reason.empty()) {
    want(RefuseIngress{event.source, reason});
    return refuse(reason);
  }
  ++state_.ingress.inbound;
  take_pages(event.pages);
  want(GrantIngress{event.source, event.pages});
  return Verdict::kDone;
}

Verdict Stepper::on(const IngressEnded& event) {
  const std::uint32_t freed = event.committed ? 0 : event.pages_freed;
  if (!take(state_.ingress.inbound, 1, state_.pages, freed)) return Verdict::kIgnored;
  if (event.committed) ++state_.work.running;
  return Verdict::kDone;
}

Verdict Stepper::on(const IngressHeld& event) {
  if (!state_.ingress.open || state_.ingress.held == event.held) return Verdict::kIgnored;
  state_.ingress.held = event.held;
  return Verdict::kDone;
}

Verdict Stepper::on(const SequencesEnded& event) {
  if (event.n == 0) return Verdict::kIgnored;
  return take(state_.work.running, event.n, state_.pages, event.pages_freed) ? Verdict::kDone
                                                                             : Verdict::kIgnored;
}

Verdict Stepper::on(const ClientGone& event) {
  switch (event.place) {
    case WorkPlace::kPrefilling:
      return on(PrefillEnded{.n_ended = 1, .pages_freed = event.pages_freed});
    case WorkPlace::kRunning:
      return on(SequencesEnded{.n = 1, .pages_freed = event.pages_freed});
    case WorkPlace::kParked:
      break;
  }
  return take(state_.work.parked, 1, state_.pages, event.pages_freed) ? Verdict::kDone
                                                                      : Verdict::kIgnored;
}

// The refractory target finishes its oldest task itself; when nothing else is left it needs no donor.
Verdict Stepper::on(const RelayAsked& event) {
  if (state_.assist == Assist::kTarget) {
    want(AnswerRelay{event.donor, state_.work.prefilling > 0, true});
    return Verdict::kDone;
  }
  if (state_.assist != Assist::kRefractory) {
    want(AnswerRelay{event.donor, false, false});
    return Verdict::kIgnored;
  }
  const bool has_task = state_.work.prefilling > 1;
  want(AnswerRelay{event.donor, has_task, false});
  if (!has_task) {
    end_assist();
    serve();
  }
  return Verdict::kDone;
}

Verdict Stepper::on(const RelayGiven& event) {
  const bool assists = state_.assist == Assist::kTarget || state_.assist == Assist::kRefractory;
  if (!assists || event.n_layers >= config_.layers ||
      !take(state_.work.prefilling, 1, state_.pages, event.pages_freed)) {
    return Verdict::kIgnored;
  }
  if (event.n_layers > 0) ++state_.work.outbound;  // the keys and values of its first layers
  if (state_.admission == Admission::kOpen && prefill_room() > 0) want(PullWork{prefill_room()});
  return Verdict::kDone;
}

Verdict Stepper::on(const RelayAnswered& event) {
  const bool is_donor = state_.assist == Assist::kDonor;
  if (event.has_task) {
    const bool takes =
        resident() && state_.takes_prompts() && state_.drain.phase == DrainPhase::kNo;
    if (!takes || !pages_fit(event.pages)) {
      want(ReturnWork{.work = {.prefilling = 1}});
      return refuse("no room for what was relayed");
    }
    ++state_.work.prefilling;
    take_pages(event.pages);
  }
  if (is_donor && event.released) {
    end_assist();
    serve();
  }
  return event.has_task || (is_donor && event.released) ? Verdict::kDone : Verdict::kIgnored;
}

}  // namespace coxswain::fleet
