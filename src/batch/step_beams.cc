// EngineCore: sequences that search by beams (beam_group.h). Their prompt is computed as any other; then a step has a
// row for each beam, that of slot 0 last, and when this one is applied the search chooses.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "batch/engine_core.h"
#include "batch/plan_size.h"

namespace coxswain::batch {
namespace {

Status refuse(std::string_view what, std::string_view given) {
  return invalid_argument("`beams` " + std::string(what) + ". Given: " + std::string(given),
                          std::string(kBeamsField));
}

Status unable(std::string_view what) {
  return {Code::kUnimplemented,
          ErrorKind::kValidation,
          "`beams` is not supported: this runner " + std::string(what),
          std::string(kBeamsField)};
}

std::span<const TokenId> end_ids(const RunnerInfo& info, const StoppingParams& stopping) {
  if (stopping.ignore_eos) return {};
  return stopping.end_ids.empty() ? std::span(info.eos_token_ids) : std::span(stopping.end_ids);
}

Status check_runner(const RunnerInfo& info, const EngineOptions& options, std::uint32_t width) {
  const Capabilities& can = info.capabilities;
  if (!can.edits) return unable("cannot edit sequences");
  if (!can.moves) return unable("cannot move blocks");
  if (!can.plans_chunks || !can.grows_blocks || !can.selects_rows)
    return unable("cannot choose the rows of a step");
  if (width > options.batch_size_max) {
    return refuse(
        "must have a width <= `batch_size_max`, " + std::to_string(options.batch_size_max),
        std::to_string(width));
  }
  return {};
}

// What would take the choice out of the search's hands.
Status check_beside(const GenerationRequest& request) {
  if (request.sampling.do_sample) return refuse("must be 1 wide beside `do_sample`", "true");
  if (request.sampling.n_top_tokens > 0) {
    return refuse("must be 1 wide beside `n_top_tokens`",
                  std::to_string(request.sampling.n_top_tokens));
  }
  if (!request.stopping.stop_sequences.empty())
    return refuse("must be 1 wide beside `stop_sequences`", "some");
  if (!request.stopping.stop_token_sequences.empty())
    return refuse("must be 1 wide beside `stop_token_sequences`", "some");
  if (request.sampling.grammar)
    return invalid_argument(
        "`grammar` must be left out of a beam search. Given: one beside `beams`", "grammar");
  if (request.sampling.thoughts)
    return invalid_argument(
        "`thoughts` must be left out of a beam search. Given: some beside `beams`", "thoughts");
  if (request.sampling.xtc_probability > 0.0F)
    return invalid_argument(
        "`xtc_probability` must be 0 in a beam search, which draws nothing. Given: " +
            std::to_string(request.sampling.xtc_probability),
        "xtc_probability");
  if (request.outputs.any_generation())
    return refuse("must be 1 wide beside `outputs` of the generation", "some");
  if (!request.more_seeds.empty()) return refuse("must be 1 wide beside `more_seeds`", "some");
  return {};
}

}  // namespace

Status EngineCore::beams_admissible(const RunnerInfo& info,
                                    const EngineOptions& options,
                                    const GenerationRequest& request) {
  const BeamParams& beams = request.beams;
  if (beams.width == 0 || beams.width > kBeamWidthMax) {
    return refuse("must have a width >= 1 and <= " + std::to_string(kBeamWidthMax),
                  std::to_string(beams.width));
  }
  if (!std::isfinite(beams.length_penalty))
    return refuse("must have a finite `length_penalty`", std::to_string(beams.length_penalty));
  if (!std::isfinite(beams.diversity_rate) || beams.diversity_rate < 0.0F) {
    return refuse("must have a `diversity_rate` >= 0 and finite",
                  std::to_string(beams.diversity_rate));
  }
  if (beams.width == 1) return {};
  if (request.n_beam_answers == 0 || request.n_beam_answers > beams.width) {
    return invalid_argument("`n` must be >= 1 and <= the width of `beams`, " +
                                std::to_string(beams.width) +
                                ". Given: " + std::to_string(request.n_beam_answers),
                            std::string(kSequencesField));
  }
  COXSWAIN_RETURN_IF_ERROR(check_runner(info, options, beams.width));
  const std::size_t n_candidates = beams.width + end_ids(info, request.stopping).size();
  if (n_candidates > info.capabilities.candidates_max) {
    return unable("lists " + std::to_string(info.capabilities.candidates_max) +
                  " candidates, and width and end tokens are " + std::to_string(n_candidates));
  }
  return check_beside(request);
}

std::unique_ptr<BeamGroup> EngineCore::begin_beams(const GenerationRequest& request) const {
  if (request.beams.width <= 1) return nullptr;
  const auto ends = end_ids(info_, request.stopping);
  return std::make_unique<BeamGroup>(
      BeamSearch(request.beams, request.stopping.max_new_tokens, {ends.begin(), ends.end()}));
}

// Nothing of the slots behind the first one is left.
void EngineCore::drop_beams(Sequence& s) {
  if (s.beams == nullptr) return;
  for (const BeamSlot& slot : s.beams->more) {
    if (slot.known_to_runner) s.beams->spent.push_back(slot.id);
  }
  drop_spent(*s.beams);
  s.beams->more.clear();
  s.beams->edits.clear();
  s.beams->candidates.clear();
}

void EngineCore::drop_spent(BeamGroup& beams) {
  if (beams.spent.empty()) return;
  dropped_.insert(dropped_.end(), beams.spent.begin(), beams.spent.end());
  beams.spent.clear();
  tells_drops_ = true;
}

// As it was before the first choice. The outputs that the runner has of slot 0 are taken back with its next row.
void EngineCore::restart_beams(Sequence& s) {
  if (s.beams == nullptr) return;
  drop_beams(s);
  BeamGroup before = std::move(*s.beams);
  s.beams = begin_beams(s.request);
  s.beams->runner_has_output = before.runner_has_output;
  s.beams->told = std::move(before.told);
  s.tokens.resize(s.n_prompt);
}

bool EngineCore::grow_beams(Sequence& s, std::uint32_t n_blocks) {
  if (!grow(s, s.lease, n_blocks)) return false;
  return std::ranges::all_of(s.beams->more,
                             [&](BeamSlot& slot) { return grow(s, slot.lease, n_blocks); });
}

// All rows of the sequence, or none.
void EngineCore::build_beam_rows(const PlannedRow& planned, StepPlan& plan, Step& step) {
  Sequence& s = *planned.sequence;
  BeamGroup& beams = *s.beams;
  const std::uint32_t n_blocks = cache_->blocks_for(s.planned + 1);
  if (planned.first_position != s.planned || !grow_beams(s, n_blocks)) return;
  const std::size_t tables = cache_->n_groups() * (kTableChangeBytes + n_blocks * kIdBytes);
  const std::size_t bytes = beams.n_slots() * (kRowBytes + kIdBytes + tables);
  if (step.rows_bytes > 0 && step.rows_bytes + bytes > options_.plan_rows_bytes_max) return;
  step.rows_bytes += bytes;
  std::ranges::move(beams.edits, std::back_inserter(plan.edits));
  beams.edits.clear();
  beams.runner_has_output = true;
  for (std::uint32_t i = 1; i < beams.n_slots(); ++i) {
    BeamSlot& slot = beams.more[i - 1];
    slot.known_to_runner = true;
    add_beam_row(s, slot.lease, slot.table_sent, plan);
    plan.rows.back().sequence = slot.id;
    plan.rows.back().tokens = {slot.token};
    step.rows.push_back(
        {.sequence = &s, .id = slot.id, .slot = i, .first_position = s.planned, .n_tokens = 1});
  }
  add_beam_row(s, s.lease, s.table_sent, plan);
  plan.rows.back().sequence = s.id;
  plan.rows.back().tokens = {s.tokens.back()};
  step.rows.push_back(
      {.sequence = &s, .id = s.id, .first_position = s.planned, .n_tokens = 1, .sample = true});
  ++s.planned;
  ++s.n_in_flight;
  ++s.n_pending;
}

void EngineCore::add_beam_row(Sequence& s,
                              kvcache::KvLease& lease,
                              std::vector<std::uint32_t>& table_sent,
                              StepPlan& plan) {
  Row& row = plan.rows.emplace_back();
  row.first_position = s.planned;
  row.n_tokens = 1;
  row.table_changes = table_changes(lease, table_sent, s.planned, s.computed);
  row.emit = Emit::kCandidates;
  row.n_candidates = s.beams->search.n_candidates();
  take_copies(lease, plan);
  lease.mark_used(plan.step);
}

// A row of slot 1, 2 ...: kept until that of slot 0 is applied.
void EngineCore::keep_candidates(const StepRow& row, SequenceResult& result) {
  Sequence& s = *row.sequence;
  if (!result.status.ok()) std::erase(dropped_, row.id);  // the runner has dropped it
  if (s.state != SequenceState::kRunning) return;
  BeamGroup& beams = *s.beams;
  beams.candidates.resize(beams.n_slots());
  beams.candidates[row.slot] = std::move(result.candidates);
  if (result.status.ok()) return;
  beams.more[row.slot - 1].known_to_runner = false;
  beams.failure = result.status;
}

// The row of slot 0, behind those of the others.
void EngineCore::apply_beam_row(const StepRow& row, SequenceResult& result, TimePoint now) {
  Sequence& s = *row.sequence;
  if (s.state != SequenceState::kRunning) return;  // paused meanwhile: the search begins again
  BeamGroup& beams = *s.beams;
  if (!beams.failure.ok()) return fail(s, generation_error(beams.failure));
  s.computed += row.n_tokens;
  cache_->publish(s.lease,
                  std::span(s.tokens).first(std::min(s.computed, s.publish_end())),
                  s.retention_rule());
  if (!row.sample) return;
  if (s.wants_prompt && !s.prompt_complete())
    return fail(s, generation_error(internal_error("what is wanted of the prompt is missing")));
  beams.candidates.resize(beams.n_slots());
  beams.candidates[0] = std::move(result.candidates);
  std::vector<std::vector<TokenAlternative>> candidates;
  candidates.reserve(beams.slot_of.size());
  for (const std::uint32_t slot : beams.slot_of)
    candidates.push_back(std::move(beams.candidates[slot]));
  if (!std::ranges::all_of(candidates, [&](const auto& list) {
        return !list.empty() && list.size() <= beams.search.n_candidates();
      })) {
    return fail(s,
                generation_error(internal_error("the runner listed no candidates, or too many")));
  }
  const auto children = beams.search.step(candidates);
  note_tokens(s, static_cast<std::uint32_t>(candidates.size()), now);
  if (beams.search.ended()) return finish_beams(s);
  place_beams(s, children);
  if (s.request.stream_beams) tell_beams(s);
}

// Which slot each child takes. Slot 0 always has one.
std::vector<std::uint32_t> EngineCore::slots_for(const BeamGroup& beams,
                                                 std::span<const BeamSearch::Child> children) {
  constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  std::vector<std::uint32_t> out(children.size(), kNone);
  std::vector<bool> taken(std::max<std::size_t>(beams.n_slots(), children.size()));
  for (std::size_t i = 0; i < children.size(); ++i) {
    const std::uint32_t slot = beams.slot_of[children[i].parent];
    if (taken[slot]) continue;
    out[i] = slot;
    taken[slot] = true;
  }
  if (!taken[0] && std::ranges::find(out, kNone) == out.end()) {
    taken[out.back()] = false;
    out.back() = kNone;
  }
  std::uint32_t next = 0;
  for (std::uint32_t& slot : out) {
    if (slot != kNone) continue;
    while (taken[next]) ++next;
    slot = next;
    taken[next] = true;
  }
  return out;
}

// The beams of the next step move in: leases now, the runner's sequences with their rows.
void EngineCore::place_beams(Sequence& s, std::span<const BeamSearch::Child> children) {
  BeamGroup& beams = *s.beams;
  drop_spent(beams);
  const std::vector<std::uint32_t> slots = slots_for(beams, children);
  std::vector<BeamSlot> next(std::max<std::size_t>(beams.n_slots(), std::ranges::max(slots) + 1));
  const auto lease_of = [&](std::uint32_t slot) -> kvcache::KvLease& {
    return slot == 0 ? s.lease : beams.more[slot - 1].lease;
  };
  const auto id_of = [&](std::uint32_t slot) {
    return slot == 0 ? s.id : slot <= beams.more.size() ? beams.more[slot - 1].id : SequenceId{};
  };
  std::vector<bool> used(next.size());
  std::vector<bool> stays(next.size());
  for (std::size_t i = 0; i < children.size(); ++i) {
    const std::uint32_t from = beams.slot_of[children[i].parent];
    const std::uint32_t to = slots[i];
    next[to].token = children[i].token;
    used[to] = true;
    stays[to] = from == to;
    next[to].id = id_of(to);
    if (next[to].id == SequenceId{}) next[to].id = SequenceId{next_sequence_++};
    beams.edits.push_back({.sequence = next[to].id,
                           .source = id_of(from),
                           .n_output = s.n_produced(),
                           .append = {children[i].token}});
    if (from != to) next[to].lease = cache_->fork(lease_of(from), s.computed);
  }
  for (std::uint32_t slot = 0; slot < beams.n_slots(); ++slot) {
    BeamSlot* old = slot == 0 ? nullptr : &beams.more[slot - 1];
    next[slot].known_to_runner = old != nullptr && old->known_to_runner;
    if (stays[slot]) {
      next[slot].lease = std::move(lease_of(slot));
      next[slot].table_sent = std::move(old != nullptr ? old->table_sent : s.table_sent);
    } else if (!used[slot] && old->known_to_runner) {
      beams.spent.push_back(old->id);
    }
  }
  for (BeamSlot& slot : next) {
    if (slot.table_sent.empty()) slot.table_sent.assign(cache_->n_groups(), 0);
  }
  settle_slots(s, std::move(next), used, slots);
}

// Slots without a beam close up.
void EngineCore::settle_slots(Sequence& s,
                              std::vector<BeamSlot> next,
                              const std::vector<bool>& used,
                              const std::vector<std::uint32_t>& slots) {
  BeamGroup& beams = *s.beams;
  std::vector<std::uint32_t> place(next.size());
  std::uint32_t n_used = 0;
  for (std::size_t slot = 0; slot < next.size(); ++slot) {
    place[slot] = n_used;
    n_used += used[slot] ? 1 : 0;
  }
  beams.slot_of.clear();
  for (const std::uint32_t slot : slots) beams.slot_of.push_back(place[slot]);
  s.lease = std::move(next[0].lease);
  s.table_sent = std::move(next[0].table_sent);
  beams.more.clear();
  for (std::size_t slot = 1; slot < next.size(); ++slot) {
    if (used[slot]) beams.more.push_back(std::move(next[slot]));
  }
  const auto lead = std::ranges::find(beams.slot_of, 0U) - beams.slot_of.begin();
  const std::vector<TokenId> ids = beams.search.ids(static_cast<std::size_t>(lead));
  s.tokens.resize(s.n_prompt);
  s.tokens.insert(s.tokens.end(), ids.begin(), ids.end());
}

// The best answers as they are now.
std::vector<TokenEvent> EngineCore::beam_events(Sequence& s) {
  std::vector<TokenEvent> out;
  for (BeamSearch::Answer& answer : s.beams->search.best(s.request.n_beam_answers)) {
    TokenEvent& event = out.emplace_back();
    event.sequence = static_cast<std::uint32_t>(out.size()) - 1;
    event.whole = true;
    if (s.beams->search.ended()) {
      event.finish = SequenceFinish{.reason = answer.at_end_token ? FinishReason::kEosToken
                                                                  : FinishReason::kLength};
      for (const OutputToken& token : answer.tokens) {
        if (!token.special) event.finish->generated_text += token.text;
      }
      event.finish->stop_text_begin = event.finish->generated_text.size();
    }
    for (const OutputToken& token : answer.tokens)
      event.cumulative_logprob += static_cast<double>(token.logprob);
    event.tokens = std::move(answer.tokens);
  }
  if (s.wants_prompt && !s.prompt_sent && !out.empty()) {
    SequenceResult nothing_more;
    add_outputs(s, nothing_more, out.front());
  }
  return out;
}

void EngineCore::tell_beams(Sequence& s) {
  s.beams->told.resize(s.request.n_beam_answers);
  for (TokenEvent& event : beam_events(s)) {
    s.beams->told[event.sequence] = {.n_tokens = static_cast<std::uint32_t>(event.tokens.size()),
                                     .cumulative_logprob = event.cumulative_logprob};
    stamp(event, s);
    events_.push_back({s.sink, std::move(event)});
  }
}

void EngineCore::finish_beams(Sequence& s) {
  s.beams->answers = beam_events(s);
  while (s.beams->answers.size() < s.request.n_beam_answers) {  // nearly all tokens are forbidden
    TokenEvent& none = s.beams->answers.emplace_back();
    none.sequence = static_cast<std::uint32_t>(s.beams->answers.size()) - 1;
    none.status = generation_error(
        {Code::kNotFound, "the search has found " + std::to_string(none.sequence) + " answers"});
  }
  forecast_.finished(s.beams->search.n_steps(), s.n_new_max);
  end(s, Outcome::kFinished, {});
}

// One for each answer: what was found, or why there is nothing.
std::vector<TokenEvent> EngineCore::final_beam_events(Sequence& s) {
  std::vector<TokenEvent> out = std::move(s.beams->answers);
  while (out.size() < s.request.n_beam_answers) {
    TokenEvent& event = out.emplace_back();
    event.sequence = static_cast<std::uint32_t>(out.size()) - 1;
    event.status = s.final_event.status;
  }
  for (TokenEvent& event : out) {
    event.n_generated = static_cast<std::uint32_t>(event.tokens.size());
    if (event.status.ok() || event.sequence >= s.beams->told.size()) continue;
    const BeamTold& told = s.beams->told[event.sequence];
    event.n_generated = told.n_tokens;
    event.cumulative_logprob = told.cumulative_logprob;
  }
  return out;
}

}  // namespace coxswain::batch
