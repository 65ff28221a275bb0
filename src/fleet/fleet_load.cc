// Fleet: what a planner is told of it.

#include "fleet/fleet.h"

namespace coxswain::fleet {

FleetLoad Fleet::load(TimePoint now, std::chrono::milliseconds window) const {
  FleetLoad out;
  base::MutexLock lock(mu_);
  // What an engine has that the fleet gave nothing is a health probe's.
  for (const auto& replica : replicas_)
    if (replica->n_stays > 0) out.waiting_tokens += replica->engine->stats().queued_tokens;
  for (const auto& [rank, stay] : waiting_) {
    if (stay->is_prompt())
      out.waiting_tokens += std::uint64_t{stay->range().n} * stay->request().request.prompt.size();
  }
  out.arrived_tokens = n_arrived_tokens_;
  out.arrived_squares = arrived_squares_;
  out.latencies = latencies_.within(now, window);
  out.transfer_token_s = transfer_cost_.ratio() / static_cast<double>(kArrivingMax);
  base::MutexLock cost_lock(cost_mu_);
  out.prompt_token_s = prompt_cost_.slope();
  return out;
}

void Fleet::note_arrival(const FleetRequest& request) {
  const std::uint64_t n_tokens =
      std::uint64_t{request.request.n_sequences()} * request.request.prompt.size();
  n_arrived_tokens_ += n_tokens;
  arrived_squares_ += static_cast<double>(n_tokens) * static_cast<double>(n_tokens);
  if (requests_.empty() && parts_.on_work) parts_.on_work();
}

void Fleet::note_latency(const FleetRequest& request, const batch::TokenEvent& event) {
  if (!event.status.ok() || event.n_generated == 0 || event.first_token_at == TimePoint{}) return;
  const TimePoint now = Clock::now();
  latencies_.note(
      now, event.first_token_at - request.queued_at, now - event.first_token_at, event.n_generated);
}

}  // namespace coxswain::fleet
