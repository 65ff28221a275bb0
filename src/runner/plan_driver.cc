#include "runner/plan_driver.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "base/numbers.h"

namespace coxswain::runner {
namespace {

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

struct Request {
  const SequenceSpec* spec = nullptr;
  DriveOutcome outcome;
  std::vector<TokenId> known;     // prompt and outputs received
  std::uint32_t computed = 0;     // positions in submitted plans
  std::uint32_t n_in_flight = 0;  // rows submitted and not yet answered
  bool sample_in_flight = false;  // the plan before this one chooses the next token
  bool introduced = false;
  bool done = false;
  std::vector<std::vector<BlockId>> tables;  // per group
};

class Driver {
 public:
  Driver(StepRunner& runner, const std::vector<SequenceSpec>& specs, const DriveOptions& options)
      : runner_(runner), info_(runner.info()), options_(options), random_(options.seed) {
    for (const KvGroup& group : info_.kv_groups) {
      std::vector<BlockId> free;
      for (BlockId id = group.n_blocks; id-- > 1;) free.push_back(id);
      free_.push_back(std::move(free));
      references_.emplace_back(group.n_blocks, 0u);
    }
    requests_.resize(specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      requests_[i].spec = &specs[i];
      requests_[i].known = specs[i].prompt;
      requests_[i].tables.resize(info_.kv_groups.size());
    }
  }

  std::vector<DriveOutcome> run() {
    constexpr int kIdlePlansMax = 1000;  // a driver that makes no progress is a bug of the test
    int idle = 0;
    while (!all_done() && idle < kIdlePlansMax) {
      StepPlan plan = next_plan();
      idle = plan.rows.empty() ? idle + 1 : 0;
      if (!plan.rows.empty()) submit(std::move(plan));
      const std::size_t keep = options_.look_ahead && idle == 0 ? 1 : 0;
      while (tickets_.size() > keep) apply_oldest();
    }
    EXPECT_LT(idle, kIdlePlansMax);
    StepPlan last{.step = step_++, .epoch = info_.epoch};
    last.dropped.reserve(requests_.size());
    for (const Request& request : requests_) last.dropped.push_back(request.spec->id);
    EXPECT_TRUE(runner_.run(std::move(last)).ok());
    std::vector<DriveOutcome> out;
    out.reserve(requests_.size());
    for (Request& request : requests_) out.push_back(std::move(request.outcome));
    return out;
  }

 private:
  bool all_done() const {
    return std::all_of(requests_.begin(), requests_.end(), [](const Request& r) {
      return r.done && r.n_in_flight == 0;
    });
  }
  bool chance(double share) {
    return std::uniform_real_distribution<double>(0.0, 1.0)(random_) < share;
  }
  std::uint32_t up_to(std::uint32_t n) {
    return std::uniform_int_distribution<std::uint32_t>(1, n)(random_);
  }

  static bool prompt_reported(const Request& request) {
    return request.outcome.prompt.size() == request.spec->prompt.size();
  }

  bool context_reported(const Request& request) const {
    const OutputParams& wanted = request.spec->outputs;
    const SequenceOutputs& seen = request.outcome.outputs;
    const std::size_t n = request.spec->prompt.size();
    return (!wanted.context_logits || seen.context_logits.size() == n * info_.vocab_size) &&
           (!wanted.context_hidden || seen.context_hidden.size() == n * info_.hidden_size);
  }

  void release_blocks(Request& request) {
    for (std::size_t g = 0; g < request.tables.size(); ++g) {
      for (const BlockId id : request.tables[g]) give_back(g, id);
      request.tables[g].clear();
    }
  }

  void give_back(std::size_t group, BlockId id) {
    if (id != kReleasedBlock && --references_[group][id] == 0) free_[group].push_back(id);
  }

  // Gives back what no row from `position` on can see; the first entry of the table that changed.
  std::size_t release_before(Request& request, std::size_t group, std::uint32_t position) {
    std::vector<BlockId>& table = request.tables[group];
    const std::uint32_t window = info_.kv_groups[group].window;
    const bool moves = info_.kv_groups[group].kind == KvGroup::Kind::kWindow && window != 0;
    // Others may write these blocks from the next row on: nothing that reads them may be in flight.
    if (!options_.release_windows || !moves || position < window || request.n_in_flight > 0)
      return table.size();
    std::size_t first = table.size();
    const std::size_t n_sinks =
        base::ceil_div(info_.kv_groups[group].sink_tokens, info_.block_tokens);
    for (std::size_t i = (position - window + 1) / info_.block_tokens; i-- > n_sinks;) {
      if (i >= table.size() || table[i] == kReleasedBlock) continue;
      give_back(group, std::exchange(table[i], kReleasedBlock));
      ++request.outcome.n_released_blocks;
      first = i;
    }
    return first;
  }

  StepPlan next_plan() {
    StepPlan plan{.step = step_, .epoch = info_.epoch};
    std::vector<Request*> order;
    order.reserve(requests_.size());
    for (Request& request : requests_) order.push_back(&request);
    std::shuffle(order.begin(), order.end(), random_);
    for (Request* request : order) {
      if (plan.rows.size() >= options_.batch_size_max) break;
      if (request->done || !chance(options_.include_share)) continue;
      if (request->n_in_flight == 0 && request->computed > 0 && chance(options_.pause_share)) {
        release_blocks(*request);
        request->computed = 0;
        ++request->outcome.n_pauses;
        // Told again from the start.
        if (!prompt_reported(*request)) request->outcome.prompt.clear();
        if (!context_reported(*request)) {
          request->outcome.outputs.context_logits.clear();
          request->outcome.outputs.context_hidden.clear();
        }
      }
      if (auto row = next_row(*request)) {
        if (!request->introduced) plan.new_sequences.push_back(*request->spec);
        request->introduced = true;
        plan.rows.push_back(std::move(*row));
      }
    }
    return plan;
  }

  std::optional<Row> next_row(Request& request) {
    Row row{.sequence = request.spec->id};
    const auto known = static_cast<std::uint32_t>(request.known.size());
    if (request.computed == 0) take_shared_prefix(request, row);
    row.first_position = request.computed;
    if (request.computed == known) {
      // Everything known is computed: the next input is still being chosen.
      if (!request.sample_in_flight || request.n_in_flight != 1) return std::nullopt;
      row.n_tokens = 1;
      row.continues = true;
      row.emit = Emit::kSample;
    } else {
      const std::uint32_t left = known - request.computed;
      std::uint32_t n = std::min(left, up_to(std::min(left, options_.chunk_tokens_max)));
      if (n < left)
        n = std::min(
            left,
            (n + options_.chunk_multiple - 1) / options_.chunk_multiple * options_.chunk_multiple);
      row.n_tokens = n;
      const auto begin = request.known.begin() + request.computed;
      row.tokens.assign(begin, begin + n);
      if (n == left) row.emit = Emit::kSample;
    }
    if (row.emit == Emit::kSample && row.n_tokens == 1) row.n_draft_max = n_draft_max(request);
    row.prompt_logprobs = request.spec->prompt_logprobs &&
                          row.first_position < request.spec->prompt.size() &&
                          !prompt_reported(request);
    row.context_outputs = request.spec->outputs.any_context() &&
                          row.first_position < request.spec->prompt.size() &&
                          !context_reported(request);
    if (!change_tables(request, row)) return std::nullopt;
    return row;
  }

  // Takes full blocks over from the live sequence with the longest common prefix; at least one
  // token stays to be computed.
  void take_shared_prefix(Request& request, Row& row) {
    if (!options_.share_prefixes || request.spec->prompt_logprobs) return;
    if (request.spec->outputs.any_context()) return;
    const std::uint32_t block_tokens = info_.block_tokens;
    std::uint32_t best_blocks = 0;
    const Request* best = nullptr;
    for (const Request& other : requests_) {
      if (&other == &request || other.done || other.computed == 0 || other.n_in_flight != 0)
        continue;
      if (other.spec->rope_length != request.spec->rope_length) continue;
      const std::size_t n =
          std::min<std::size_t>({request.known.size() - 1, other.known.size(), other.computed});
      const auto common = std::mismatch(request.known.begin(),
                                        request.known.begin() + static_cast<std::ptrdiff_t>(n),
                                        other.known.begin());
      const auto blocks =
          static_cast<std::uint32_t>(common.first - request.known.begin()) / block_tokens;
      if (blocks > best_blocks) {
        best_blocks = blocks;
        best = &other;
      }
    }
    if (best == nullptr) return;
    for (std::uint32_t g = 0; g < request.tables.size(); ++g) {
      request.tables[g].assign(best->tables[g].begin(), best->tables[g].begin() + best_blocks);
      for (const BlockId id : request.tables[g]) ++references_[g][id];
      row.table_changes.push_back({.kv_group = g, .first_index = 0, .blocks = request.tables[g]});
    }
    request.computed = best_blocks * block_tokens;
    request.outcome.n_shared_tokens += request.computed;
  }

  std::uint32_t n_draft_max(const Request& request) const {
    const bool has_grammar = static_cast<bool>(request.spec->sampling.grammar);
    return std::max(options_.n_draft_max, has_grammar ? options_.n_forced_max : 0);
  }

  bool change_tables(Request& request, Row& row) {
    std::uint32_t end = row.first_position + row.n_tokens;
    // The row before it may yield as many.
    const std::uint32_t n_extra = (1 + request.n_in_flight) * n_draft_max(request);
    const std::size_t n_all = request.spec->prompt.size() + request.spec->stopping.max_new_tokens;
    if (row.emit == Emit::kSample)
      end = std::max(end, std::min(end + n_extra, static_cast<std::uint32_t>(n_all) - 1));
    const std::uint32_t n_blocks = (end + info_.block_tokens - 1) / info_.block_tokens;
    for (std::uint32_t g = 0; g < request.tables.size(); ++g) {
      std::vector<BlockId>& table = request.tables[g];
      const std::size_t first = release_before(request, g, row.first_position);
      while (table.size() < n_blocks) {
        if (free_[g].empty()) {
          ADD_FAILURE() << "the test has too few blocks";
          return false;
        }
        table.push_back(free_[g].back());
        free_[g].pop_back();
        references_[g][table.back()] = 1;
      }
      if (first == table.size()) continue;
      const auto begin = table.begin() + static_cast<std::ptrdiff_t>(first);
      row.table_changes.push_back({.kv_group = g,
                                   .first_index = static_cast<std::uint32_t>(first),
                                   .blocks = {begin, table.end()}});
    }
    return true;
  }

  void submit(StepPlan plan) {
    for (Request& request : requests_) {
      const auto row = std::find_if(plan.rows.begin(), plan.rows.end(), [&](const Row& r) {
        return r.sequence == request.spec->id;
      });
      if (row == plan.rows.end()) continue;
      request.computed = row->first_position + row->n_tokens;
      request.sample_in_flight = row->emit == Emit::kSample;
      ++request.n_in_flight;
    }
    ++step_;
    auto ticket = runner_.submit(std::move(plan));
    ASSERT_TRUE(ticket.ok()) << ticket.status().message();
    tickets_.push_back(*ticket);
  }

  void apply_oldest() {
    auto result = runner_.wait(tickets_.front());
    tickets_.pop_front();
    ASSERT_TRUE(result.ok()) << result.status().message();
    for (SequenceResult& sequence : result->sequences) {
      const auto at = std::find_if(requests_.begin(), requests_.end(), [&](const Request& r) {
        return r.spec->id == sequence.sequence;
      });
      ASSERT_NE(at, requests_.end());
      apply(*at, std::move(sequence));
    }
  }

  void apply(Request& request, SequenceResult sequence) {
    --request.n_in_flight;
    if (!request.done) {
      DriveOutcome& outcome = request.outcome;
      for (PromptToken& token : sequence.prompt) {
        if (outcome.prompt.size() < request.spec->prompt.size())
          outcome.prompt.push_back(std::move(token));
      }
      if (sequence.outputs) add_outputs(*sequence.outputs, outcome.outputs);
      if (sequence.tokens.size() > 1) {
        const auto n_more = static_cast<std::uint32_t>(sequence.tokens.size() - 1);
        request.computed += n_more;
        outcome.n_drafts += n_more;
      }
      for (OutputToken& token : sequence.tokens) {
        request.known.push_back(token.id);
        outcome.tokens.push_back(std::move(token));
      }
      if (request.n_in_flight == 0) request.sample_in_flight = false;
      outcome.status = sequence.status;
      if (sequence.finish) outcome.finish = std::move(*sequence.finish);
      request.done = sequence.finish.has_value() || !outcome.status.ok();
    }
    if (request.done && request.n_in_flight == 0) release_blocks(request);
  }

  StepRunner& runner_;
  RunnerInfo info_;
  DriveOptions options_;
  std::mt19937_64 random_;
  std::vector<Request> requests_;
  std::vector<std::vector<BlockId>> free_;
  std::vector<std::vector<std::uint32_t>> references_;
  std::deque<StepTicket> tickets_;
  std::uint64_t step_ = 1;
};

}  // namespace

void add_outputs(const SequenceOutputs& from, SequenceOutputs& to) {
  const auto append = [](const std::vector<float>& rows, std::vector<float>& all) {
    all.insert(all.end(), rows.begin(), rows.end());
  };
  append(from.context_logits, to.context_logits);
  append(from.generation_logits, to.generation_logits);
  append(from.context_hidden, to.context_hidden);
  append(from.generation_hidden, to.generation_hidden);
}

std::vector<DriveOutcome> drive(StepRunner& runner,
                                const std::vector<SequenceSpec>& specs,
                                const DriveOptions& options) {
  return Driver(runner, specs, options).run();
}

std::vector<DriveOutcome> drive_each_alone(StepRunner& runner,
                                           const std::vector<SequenceSpec>& specs) {
  std::vector<DriveOutcome> out;
  out.reserve(specs.size());
  for (const SequenceSpec& spec : specs)
    out.push_back(std::move(drive(runner, {spec}, {}).front()));
  return out;
}

bool same_outcome(const DriveOutcome& a, const DriveOutcome& b) {
  const auto same_bits = [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::ranges::equal(x, y, {}, bits_of, bits_of);
  };
  const auto same_token = [](const OutputToken& x, const OutputToken& y) {
    return x == y && bits_of(x.logprob) == bits_of(y.logprob);
  };
  const auto same_prompt = [](const PromptToken& x, const PromptToken& y) {  // NaN equals NaN here
    return x.id == y.id && bits_of(x.logprob) == bits_of(y.logprob) && x.text == y.text &&
           x.alternatives == y.alternatives;
  };
  return a.status == b.status && a.finish == b.finish &&
         std::equal(
             a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end(), same_token) &&
         std::equal(
             a.prompt.begin(), a.prompt.end(), b.prompt.begin(), b.prompt.end(), same_prompt) &&
         same_bits(a.outputs.context_logits, b.outputs.context_logits) &&
         same_bits(a.outputs.generation_logits, b.outputs.generation_logits) &&
         same_bits(a.outputs.context_hidden, b.outputs.context_hidden) &&
         same_bits(a.outputs.generation_hidden, b.outputs.generation_hidden);
}

void expect_same_outcomes(const std::vector<DriveOutcome>& expected,
                          const std::vector<DriveOutcome>& seen,
                          const std::string& what) {
  ASSERT_EQ(expected.size(), seen.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same_outcome(expected[i], seen[i])) << what << ": request " << i;
}

}  // namespace coxswain::runner
