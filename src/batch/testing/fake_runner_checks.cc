// FakeRunner: rules of a plan that would not show in the tokens.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "batch/testing/fake_runner.h"
#include "batch/testing/fake_tokens.h"
#include "request/draft_room.h"

namespace coxswain::batch::testing {

void FakeRunner::check_fields(const StepPlan& plan) {
  if (!plan.moves.empty() && !options_.capabilities.moves)
    violate("moves, which this runner does not do");
  if (!plan.edits.empty() && !options_.capabilities.edits)
    violate("edits, which this runner does not do");
  if ((!plan.imports.empty() || !plan.exports.empty()) && !options_.capabilities.attachments)
    violate("blocks from or to attachments, which this runner does not move");
  if (plan.hidden_in != 0 || plan.hidden_out != 0)
    violate("hidden states, which this runner has not");
  const LayerRange all{.begin = 0, .end = options_.about.n_layers};
  if (plan.layers != LayerRange{} && plan.layers != all) violate("a part of the layers");
  std::set<std::string> adapters;
  std::uint32_t n_pages = 0;
  for (const Row& row : plan.rows) {
    const auto state = sequences_.find(row.sequence);
    if (state == sequences_.end()) continue;
    const std::string& digest = state->second.spec.adapter_digest;
    if (adapters.insert(digest).second) n_pages += adapter_pages(digest);
  }
  if (const std::uint32_t most = options_.about.adapter_pages; most > 0 && n_pages > most)
    violate("adapters of " + std::to_string(n_pages) + " pages in one step");
  for (const Row& row : plan.rows) {
    if ((row.emit == Emit::kCandidates) != (row.n_candidates > 0) ||
        row.n_candidates > options_.capabilities.candidates_max) {
      violate("more or fewer candidates than this runner lists");
    }
  }
}

void FakeRunner::check_row(const Row& row, const State& state, const StepPlan& plan) {
  const Capabilities& can = options_.capabilities;
  if (row.n_tokens == 0) return violate("an empty row");
  const bool has_grammar = static_cast<bool>(state.spec.sampling.grammar);
  if (row.n_draft_max > request::draft_room(can.draft_tokens_max, has_grammar))
    violate("more drafts than the runner makes");
  if (row.continues) {
    if (!can.look_ahead || row.n_tokens != 1 || state.submitted_sample_in_step + 1 != plan.step) {
      violate("a row takes a token that the step before does not sample");
    }
  } else if (!row.tokens.empty() && row.tokens.size() != row.n_tokens) {
    violate("a row has another number of tokens than it says");
  }
  const bool whole_prompt = row.first_position + row.n_tokens >= state.spec.prompt.size();
  if (!can.plans_chunks && !whole_prompt) violate("a chunk of a prompt");
  const std::uint32_t n_blocks = block_of(row.first_position + row.n_tokens - 1) + 1;
  for (const auto& table : state.tables) {
    if (table.size() < n_blocks) return violate("a block table is too short");
  }
  if (options_.checks_scheduling) check_scheduling(row, state);
}

void FakeRunner::check_scheduling(const Row& row, const State& state) {
  if (!row.tokens.empty() && row.first_position < state.spec.prompt.size())
    violate("a row repeats the prompt");
  if (row.emit == Emit::kNone && !options_.divides_blocks &&
      (row.first_position + row.n_tokens) % options_.block_tokens != 0)
    violate("a chunk that does not end at a block");
  for (std::size_t g = 0; g < state.tables.size(); ++g) {
    const auto& table = state.tables[g];
    if (!options_.capabilities.grows_blocks &&
        table.size() * options_.block_tokens <
            state.spec.prompt.size() + state.spec.stopping.max_new_tokens - 1) {
      violate("a table that must not grow is too short");
    }
    for (std::uint32_t b = 0; b < table.size(); ++b) {
      const std::uint32_t last = (b + 1) * options_.block_tokens - 1;
      const bool seen = last >= row.first_position ||
                        sees(options_, options_.windows[g], row.first_position, last) ||
                        b * options_.block_tokens < options_.sink_tokens;
      if (!seen) continue;
      if (table[b] == 0 || table[b] >= options_.n_blocks[g])
        violate("a block id that is not leased to anybody");
    }
  }
  check_writes(row, state);
}

// A block that this row writes may stand in no table of another sequence in a step in flight.
void FakeRunner::check_writes(const Row& row, const State& state) {
  const auto named_by_another = [&](std::size_t g, BlockId block) REQUIRES(mu_) {
    for (const Job& job : jobs_) {
      for (std::size_t r = 0; r < job.tables.size(); ++r) {
        if (job.plan.rows[r].sequence == row.sequence || job.tables[r].empty()) continue;
        if (std::ranges::count(job.tables[r][g], block) > 0) return true;
      }
    }
    return false;
  };
  const std::uint32_t last = block_of(row.first_position + row.n_tokens - 1);
  for (std::size_t g = 0; g < state.tables.size(); ++g) {
    for (std::uint32_t b = block_of(row.first_position); b <= last; ++b) {
      if (named_by_another(g, state.tables[g][b])) {
        violate("a block is written that a step in flight names for another sequence");
      }
    }
  }
}

}  // namespace coxswain::batch::testing
