#include "batch/testing/fake_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include <coxswain/kv_layout.h>

namespace coxswain::batch::testing {
namespace {

// splitmix64's finaliser over a running sum.
std::uint64_t mix(std::uint64_t h, std::uint64_t value) {
  h += value + 0x9e3779b97f4a7c15U;
  h = (h ^ (h >> 30U)) * 0xbf58476d1ce4e5b9U;
  h = (h ^ (h >> 27U)) * 0x94d049bb133111ebU;
  return h ^ (h >> 31U);
}

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = text.size();
  for (const char c : text) h = mix(h, static_cast<unsigned char>(c));
  return h;
}

std::uint64_t identity_of(const FakeRunnerOptions& o, const SequenceSpec& spec) {
  std::uint64_t variant = 0;
  if (o.rope_switch_length > 0 && spec.rope_length > o.rope_switch_length) {
    variant = o.rope_length_is_exact ? spec.rope_length : 1;
  }
  return mix(mix(hash_text(spec.adapter_digest), hash_text(spec.cache_salt)), variant);
}

std::uint64_t cell(std::uint32_t position, TokenId token, std::uint64_t identity) {
  return mix(mix(position, static_cast<std::uint64_t>(token)), identity);
}

// Whether a token at `position` sees an earlier one in a group.
bool sees(const FakeRunnerOptions& o,
          std::uint32_t window,
          std::uint32_t position,
          std::uint32_t other) {
  return window == 0 || other < o.sink_tokens || position - other < window;
}

struct Sampled {
  TokenId token = 0;
  float logprob = 0;
  bool eos = false;
};

Sampled sample(const FakeRunnerOptions& o,
               std::uint64_t context,
               const SamplingParams& sampling,
               std::uint32_t n_output) {
  const std::uint64_t h = sampling.do_sample ? mix(mix(context, sampling.seed), n_output) : context;
  const std::uint32_t n_sampled = o.n_sampled > 0 ? o.n_sampled : o.vocab_size;
  return {.token = o.first_sampled + static_cast<TokenId>(h % n_sampled),
          .logprob = -static_cast<float>((h >> 20U) & 0xFFFFU) / 4096.0F,
          .eos = o.eos_every > 0 && (h >> 40U) % o.eos_every == 0};
}

float prompt_logprob(std::uint64_t context, TokenId token) {
  return -static_cast<float>(mix(context, static_cast<std::uint64_t>(token)) & 0xFFFFU) / 4096.0F;
}

std::vector<TokenAlternative> candidates_of(const FakeRunnerOptions& o,
                                            std::uint64_t context,
                                            std::size_t n) {
  std::vector<TokenAlternative> out;
  const std::uint32_t n_sampled = o.n_sampled > 0 ? o.n_sampled : o.vocab_size;
  for (std::uint32_t i = 0; i < n_sampled; ++i) {
    const TokenId id = o.first_sampled + static_cast<TokenId>(i);
    const std::uint64_t h = mix(context, 0xBEA0U + static_cast<std::uint64_t>(id));
    out.push_back({.id = id,
                   .logprob = -static_cast<float>(h & 0xFFFFU) / 4096.0F,
                   .special = std::ranges::count(o.about.eos_token_ids, id) > 0,
                   .text = o.codec ? o.codec->token_text(id) : std::string()});
  }
  std::ranges::stable_sort(out, std::ranges::greater(), &TokenAlternative::logprob);
  out.resize(std::min(n, out.size()));
  return out;
}

std::string text_of(const FakeRunnerOptions& o, TokenId token) {
  return o.codec ? o.codec->token_text(token) : std::string();
}

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Of an attachment of blocks (kv_layout.h), up to the numbers of blocks.
std::string blocks_head(const RunnerInfo& info) {
  const std::string text = describe(kv_layout_of(info));
  std::string out = "CXKV";
  put(out, static_cast<std::uint32_t>(text.size()));
  return out + text;
}

Status check_blocks(const RunnerInfo& info, std::string_view image) {
  const std::string head = blocks_head(info);
  if (!image.starts_with(head)) return {Code::kFailedPrecondition, "KV blocks: of another layout"};
  std::vector<std::uint32_t> n_blocks(info.kv_groups.size());
  std::size_t at = head.size() + n_blocks.size() * sizeof(std::uint32_t);
  if (image.size() < at) return invalid_argument("KV blocks: the image is cut off");
  std::memcpy(n_blocks.data(), image.data() + head.size(), at - head.size());
  if (image.size() != blocks_attachment_bytes(kv_layout_of(info), n_blocks))
    return invalid_argument("KV blocks: an image of another size");
  for (std::size_t g = 0; g < n_blocks.size(); ++g) {
    const std::size_t size = info.kv_groups[g].bytes_per_block;
    for (std::uint32_t i = 0; i < n_blocks[g]; ++i, at += sizeof(std::uint64_t) + size) {
      std::uint64_t sum = 0;
      std::memcpy(&sum, image.data() + at, sizeof sum);
      if (sum != hash_text(image.substr(at + sizeof sum, size)))
        return {Code::kDataLoss, "KV blocks: a block has a wrong checksum"};
    }
  }
  return {};
}

// How `output`, whose last token is `last`, ends; nothing if it goes on.
std::optional<SequenceFinish> finish_of(const FakeRunnerOptions& o,
                                        const StoppingParams& stopping,
                                        std::span<const TokenId> output,
                                        const Sampled& last) {
  SequenceFinish finish;
  if (o.codec) finish.generated_text = o.codec->decode(output, true);
  finish.stop_text_begin = finish.generated_text.size();
  const bool at_eos = last.eos && !stopping.ignore_eos;
  const bool at_length = output.size() >= stopping.max_new_tokens;
  if (o.codec && (stopping.order == FinishOrder::kStopFirst || (!at_eos && !at_length))) {
    for (const std::string& stop : stopping.stop_sequences) {
      if (!finish.generated_text.ends_with(stop)) continue;
      finish.reason = FinishReason::kStopSequence;
      finish.stop_text_begin -= stop.size();
      return finish;
    }
  }
  if (at_eos) finish.reason = FinishReason::kEosToken;
  return at_eos || at_length ? std::optional(std::move(finish)) : std::nullopt;
}

std::uint64_t identity_of(const FakeRunnerOptions& o, const GenerationRequest& request) {
  const auto n_prompt = static_cast<std::uint32_t>(request.prompt.size());
  return identity_of(o,
                     SequenceSpec{.id = {},
                                  .rope_length = n_prompt + request.stopping.max_new_tokens,
                                  .adapter_digest = request.adapter_digest,
                                  .cache_salt = request.cache_salt});
}

// Hash of what the last of `tokens` sees.
std::uint64_t context_of(const FakeRunnerOptions& o,
                         std::uint64_t identity,
                         std::span<const TokenId> tokens) {
  std::uint64_t h = 0;
  const auto end = static_cast<std::uint32_t>(tokens.size());
  for (const std::uint32_t window : o.windows) {
    for (std::uint32_t p = 0; p < end; ++p) {
      if (sees(o, window, end - 1, p)) h = mix(h, cell(p, tokens[p], identity));
    }
  }
  return h;
}

}  // namespace

std::vector<TokenAlternative> candidates_behind(const FakeRunnerOptions& options,
                                                const GenerationRequest& request,
                                                std::span<const TokenId> tokens,
                                                std::size_t n) {
  return candidates_of(options, context_of(options, identity_of(options, request), tokens), n);
}

ExpectedOutput expected_output(const FakeRunnerOptions& o, const GenerationRequest& request) {
  const std::uint64_t identity = identity_of(o, request);
  std::vector<TokenId> tokens = request.prompt;
  const auto context = [&](std::uint32_t end) {
    return context_of(o, identity, std::span(tokens).first(end));
  };
  ExpectedOutput out;
  out.prompt_logprobs.push_back(std::numeric_limits<float>::quiet_NaN());
  for (std::uint32_t p = 1; p < request.prompt.size(); ++p) {
    out.prompt_logprobs.push_back(prompt_logprob(context(p), tokens[p]));
  }
  for (std::uint32_t n = 0; n < request.stopping.max_new_tokens; ++n) {
    const Sampled s =
        sample(o, context(static_cast<std::uint32_t>(tokens.size())), request.sampling, n);
    out.tokens.push_back(s.token);
    out.logprobs.push_back(s.logprob);
    tokens.push_back(s.token);
    if (const auto finish = finish_of(o, request.stopping, out.tokens, s)) {
      out.reason = finish->reason;
      out.text = finish->generated_text;
      break;
    }
  }
  return out;
}

FakeRunner::FakeRunner(FakeRunnerOptions options) : options_(std::move(options)) {
  for (const std::uint32_t n : options_.n_blocks)
    slots_.emplace_back(std::size_t{n} * options_.block_tokens);
}

RunnerInfo FakeRunner::info() const {
  RunnerInfo info = options_.about;
  info.epoch = options_.epoch;
  info.vocab_size = options_.vocab_size;
  info.block_tokens = options_.block_tokens;
  info.rope_switch_length = options_.rope_switch_length;
  info.rope_length_is_exact = options_.rope_length_is_exact;
  info.capabilities = options_.capabilities;
  const auto n_groups = static_cast<std::uint32_t>(options_.n_blocks.size());
  info.kv_groups.clear();
  for (std::uint32_t g = 0; g < n_groups; ++g) {
    KvGroup group;
    for (std::uint32_t layer = g; layer < std::max(info.n_layers, n_groups); layer += n_groups)
      group.layers.push_back(layer);
    group.kind = options_.windows[g] > 0 ? KvGroup::Kind::kWindow : KvGroup::Kind::kFull;
    group.window = options_.windows[g];
    group.sink_tokens = options_.windows[g] > 0 ? options_.sink_tokens : 0;
    group.dtype = "fake";
    group.n_kv_heads = group.k_dim = group.v_dim = 1;
    group.bytes_per_block = options_.block_tokens * sizeof(Slot);
    group.n_blocks = options_.n_blocks[g];
    info.kv_groups.push_back(std::move(group));
  }
  return info;
}

Status FakeRunner::healthy() {
  on_health();
  base::MutexLock lock(mu_);
  return health_;
}

void FakeRunner::hold() {
  base::MutexLock lock(mu_);
  held_ = true;
}

void FakeRunner::release() {
  base::MutexLock lock(mu_);
  held_ = false;
  changed_.notify_all();
}

void FakeRunner::restart() {
  base::MutexLock lock(mu_);
  sequences_.clear();
  failed_.clear();
  jobs_.clear();
  for (std::vector<Slot>& slots : slots_) slots.assign(slots.size(), Slot{});
  changed_.notify_all();
}

void FakeRunner::set_health(Status status) {
  base::MutexLock lock(mu_);
  health_ = std::move(status);
}

void FakeRunner::refuse_attachments(Status status) {
  base::MutexLock lock(mu_);
  attachment_refusal_ = std::move(status);
}

std::vector<Attachment> FakeRunner::attached() const {
  base::MutexLock lock(mu_);
  return attached_;
}

Status FakeRunner::attach(Attachment attachment) {
  base::MutexLock lock(mu_);
  if (!options_.capabilities.attachments) return StepRunner::attach(std::move(attachment));
  if (!attachment_refusal_.ok()) return attachment_refusal_;
  if (attachment.kind == AttachmentKind::kBlocks)
    COXSWAIN_RETURN_IF_ERROR(check_blocks(info(), attachment.bytes));
  attached_.push_back(std::move(attachment));
  return {};
}

Status FakeRunner::detach(std::uint64_t id) {
  base::MutexLock lock(mu_);
  std::erase_if(attached_, [&](const Attachment& a) { return a.id == id; });
  return {};
}

Result<Attachment> FakeRunner::take(std::uint64_t id) {
  base::MutexLock lock(mu_);
  const auto found = std::ranges::find(attached_, id, &Attachment::id);
  if (found == attached_.end()) return StepRunner::take(id);
  Attachment out = std::move(*found);
  attached_.erase(found);
  return out;
}

void FakeRunner::refuse_next(Status status) {
  base::MutexLock lock(mu_);
  next_refusal_ = std::move(status);
}

void FakeRunner::fail_next(Status status) {
  base::MutexLock lock(mu_);
  next_failure_ = std::move(status);
}

void FakeRunner::fail_sequences_starting_with(TokenId token) {
  base::MutexLock lock(mu_);
  failing_start_ = token;
}

std::vector<std::string> FakeRunner::violations() const {
  base::MutexLock lock(mu_);
  return violations_;
}

std::set<SequenceId> FakeRunner::live() const {
  base::MutexLock lock(mu_);
  std::set<SequenceId> out;
  for (const auto& [id, state] : sequences_) out.insert(id);
  return out;
}

std::uint64_t FakeRunner::n_submitted() const {
  base::MutexLock lock(mu_);
  return n_submitted_;
}

std::uint64_t FakeRunner::n_steps() const {
  base::MutexLock lock(mu_);
  return n_steps_;
}

void FakeRunner::wait_for_submitted(std::uint64_t n) const {
  base::MutexLock lock(mu_);
  changed_.wait(lock, [&]() REQUIRES(mu_) { return n_submitted_ >= n; });
}

void FakeRunner::wait_for_live(std::size_t n) const {
  base::MutexLock lock(mu_);
  changed_.wait(lock, [&]() REQUIRES(mu_) { return sequences_.size() == n; });
}

std::vector<StepPlan> FakeRunner::take_plans() {
  base::MutexLock lock(mu_);
  return std::exchange(plans_, {});
}

std::vector<StepPlan> FakeRunner::plans() const {
  base::MutexLock lock(mu_);
  return plans_;
}

void FakeRunner::keep_plans() {
  base::MutexLock lock(mu_);
  keep_plans_ = true;
}

void FakeRunner::violate(std::string what) {
  if (violations_.size() < 20) violations_.push_back(std::move(what));
}

// What the plan asks for that would not show in the tokens.
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
  for (const Row& row : plan.rows) {
    if ((row.emit == Emit::kCandidates) != (row.n_candidates > 0) ||
        row.n_candidates > options_.capabilities.candidates_max) {
      violate("more or fewer candidates than this runner lists");
    }
  }
}

void FakeRunner::take_new_and_dropped(const StepPlan& plan, Job& job) {
  for (const SequenceId id : plan.dropped) {
    job.dropped.push_back(sequences_.extract(id));
    if (job.dropped.back().empty() && options_.checks_scheduling && failed_.erase(id) == 0)
      violate("an unknown sequence is dropped");
  }
  for (const SequenceSpec& spec : plan.new_sequences) {
    State state;
    state.spec = spec;
    state.identity = identity_of(options_, spec);
    state.tables.resize(options_.n_blocks.size());
    state.tokens = spec.prompt;
    state.tokens.insert(state.tokens.end(), spec.produced.begin(), spec.produced.end());
    if (!sequences_.insert_or_assign(spec.id, std::move(state)).second)
      violate("a sequence is introduced twice");
  }
}

void FakeRunner::change_tables(const Row& row, State& state) {
  for (const BlockTableChange& change : row.table_changes) {
    if (change.kv_group >= state.tables.size()) {
      violate("a table change of an unknown group");
      continue;
    }
    auto& table = state.tables[change.kv_group];
    if (change.first_index > table.size()) violate("a table change leaves a hole");
    table.resize(change.first_index);
    table.insert(table.end(), change.blocks.begin(), change.blocks.end());
  }
}

Result<StepTicket> FakeRunner::submit(StepPlan plan) {
  if (Status status = submit_failure(plan.step); !status.ok()) return status;
  base::MutexLock lock(mu_);
  if (jobs_.size() >= (options_.capabilities.look_ahead ? 2U : 1U))
    violate("too many plans in flight");
  if (plan.epoch != options_.epoch) violate("a plan of another epoch");
  check_fields(plan);
  if (!next_refusal_.ok()) {
    for (const SequenceSpec& spec : plan.new_sequences) failed_.insert(spec.id);
    return std::exchange(next_refusal_, Status());
  }
  Job job;
  take_new_and_dropped(plan, job);
  apply_edits(plan);
  std::set<SequenceId> seen;
  for (const Row& row : plan.rows) {
    const auto it = sequences_.find(row.sequence);
    if (it == sequences_.end()) {
      violate("a row of an unknown sequence");
      job.tables.emplace_back();
      continue;
    }
    State& state = it->second;
    change_tables(row, state);
    if (!seen.insert(row.sequence).second) violate("two rows of one sequence");
    check_row(row, state, plan);
    if (row.emit == Emit::kSample) state.submitted_sample_in_step = plan.step;
    job.tables.push_back(state.tables);
  }
  if (keep_plans_) plans_.push_back(plan);
  const StepTicket ticket{plan.step};
  job.plan = std::move(plan);
  if (clock_ != nullptr)
    job.ends_at = last_ends_at_ = std::max(*clock_, last_ends_at_) + step_time(job.plan.step);
  jobs_.push_back(std::move(job));
  ++n_submitted_;
  changed_.notify_all();
  return ticket;
}

void FakeRunner::check_row(const Row& row, const State& state, const StepPlan& plan) {
  const Capabilities& can = options_.capabilities;
  if (row.n_tokens == 0) return violate("an empty row");
  if (row.n_draft_max > can.draft_tokens_max) violate("more drafts than the runner makes");
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
  if (row.emit == Emit::kNone && (row.first_position + row.n_tokens) % options_.block_tokens != 0)
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

std::uint64_t FakeRunner::read(const Tables& tables, std::uint32_t end) const {
  std::uint64_t h = 0;
  for (std::size_t g = 0; g < tables.size(); ++g) {
    for (std::uint32_t p = 0; p < end; ++p) {
      if (!sees(options_, options_.windows[g], end - 1, p)) continue;
      const std::size_t block = block_of(p) < tables[g].size() ? tables[g][block_of(p)]
                                                               : std::size_t{options_.n_blocks[g]};
      const std::size_t index = block * options_.block_tokens + p % options_.block_tokens;
      const Slot slot = block < options_.n_blocks[g] ? slots_[g][index] : Slot{};
      h = mix(h, cell(slot.position, slot.token, slot.identity));
    }
  }
  return h;
}

void FakeRunner::write_position(State& state, const Tables& tables, std::uint32_t position) {
  for (std::size_t g = 0; g < tables.size(); ++g) {
    if (block_of(position) >= tables[g].size()) return violate("a position without a block");
    const BlockId block = tables[g][block_of(position)];
    if (block >= options_.n_blocks[g]) return violate("a block outside the pool");
    slots_[g][std::size_t{block} * options_.block_tokens + position % options_.block_tokens] = {
        position, state.tokens[position], state.identity};
  }
}

Status FakeRunner::failure_of(std::uint64_t step) {
  return next_failure_.ok() ? step_failure(step) : std::exchange(next_failure_, Status());
}

Status FakeRunner::failure_of(std::uint64_t step, const SequenceSpec& spec) {
  if (failing_start_ && spec.prompt.front() == *failing_start_)
    return {Code::kInternal, ErrorKind::kGeneration, "told to fail"};
  return row_failure(step, spec);
}

void FakeRunner::move_block(const BlockMove& move) {
  if (move.kv_group >= slots_.size()) return violate("a move in an unknown group");
  const std::uint32_t n_blocks = options_.n_blocks[move.kv_group];
  if (std::max(move.from.id, move.to.id) >= n_blocks) return violate("a block outside the pool");
  std::vector<Slot>& slots = slots_[move.kv_group];
  std::copy_n(slots.begin() + std::ptrdiff_t{move.from.id} * options_.block_tokens,
              options_.block_tokens,
              slots.begin() + std::ptrdiff_t{move.to.id} * options_.block_tokens);
}

std::span<FakeRunner::Slot> FakeRunner::slots_of(std::size_t group, BlockId block) {
  if (block == 0 || block >= options_.n_blocks[group]) {
    violate("a block outside the pool");
    block = 0;
  }
  return std::span(slots_[group])
      .subspan(std::size_t{block} * options_.block_tokens, options_.block_tokens);
}

void FakeRunner::export_blocks(const BlockTransfer& transfer) {
  if (transfer.blocks.size() != slots_.size()) return violate("an export of other KV groups");
  std::string image = blocks_head(info());
  for (const auto& list : transfer.blocks) put(image, static_cast<std::uint32_t>(list.size()));
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    for (const BlockId block : transfer.blocks[g]) {
      const auto bytes = std::as_bytes(std::span<const Slot>(slots_of(g, block)));
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      put(image, hash_text(text));
      image += text;
    }
  }
  attached_.push_back(
      {.id = transfer.attachment, .kind = AttachmentKind::kBlocks, .bytes = std::move(image)});
}

Status FakeRunner::import_blocks(const BlockTransfer& transfer) {
  const auto found = std::ranges::find(attached_, transfer.attachment, &Attachment::id);
  if (found == attached_.end()) return invalid_argument("an attachment that is not there");
  const std::string image = std::move(found->bytes);
  attached_.erase(found);
  std::string head = blocks_head(info());
  for (const auto& list : transfer.blocks) put(head, static_cast<std::uint32_t>(list.size()));
  if (!image.starts_with(head)) return invalid_argument("another number of blocks");
  std::size_t at = head.size();
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    for (const BlockId block : transfer.blocks[g]) {
      const auto to = std::as_writable_bytes(slots_of(g, block));
      std::memcpy(to.data(), image.data() + at + sizeof(std::uint64_t), to.size());
      at += sizeof(std::uint64_t) + to.size();
    }
  }
  return {};
}

SequenceResult FakeRunner::run_row(const Job& job, std::size_t index) {
  const Row& row = job.plan.rows[index];
  SequenceResult out;
  out.sequence = row.sequence;
  const auto it = sequences_.find(row.sequence);
  if (it == sequences_.end() || job.tables[index].empty()) {
    out.status = Status(Code::kNotFound, "the sequence is not known");
    return out;
  }
  State& state = it->second;
  if (out.status = failure_of(job.plan.step, state.spec); !out.status.ok()) {
    failed_.insert(row.sequence);
    sequences_.erase(it);
    return out;
  }
  const Tables& tables = job.tables[index];
  const auto n_known = static_cast<std::uint32_t>(state.tokens.size());
  if (row.continues && row.first_position > state.computed) {  // the step before has failed
    out.status = internal_error("a row continues too far on");
    sequences_.erase(it);
    return out;
  }
  if (state.finished) return out;  // planned ahead, before its end was known
  const std::uint32_t first = row.continues ? state.computed : row.first_position;
  const std::uint32_t n_tokens =
      row.continues ? std::min(n_known - first, row.n_tokens + row.n_draft_max) : row.n_tokens;
  if (first + n_tokens > n_known) {
    violate("positions behind the end of the sequence");
    out.status = internal_error("positions behind the end of the sequence");
    sequences_.erase(it);
    return out;
  }
  for (std::uint32_t position = first; position < first + n_tokens; ++position) {
    const TokenId token = state.tokens[position];
    if (!row.tokens.empty() && row.tokens[position - first] != token)
      violate("a token that is not the sequence's");
    if (row.prompt_logprobs && position < state.spec.prompt.size()) {
      const float logprob =
          position == 0
              ? std::numeric_limits<float>::quiet_NaN()
              : prompt_logprob(position == first ? state.context : read(tables, position), token);
      out.prompt.push_back({.id = token, .logprob = logprob, .text = text_of(options_, token)});
    }
    write_position(state, tables, position);
  }
  state.computed = out.next_position = first + n_tokens;
  if (row.prompt_logprobs) state.context = read(tables, state.computed);
  if (row.emit == Emit::kCandidates) list_candidates(row, state, tables, out);
  if (row.emit != Emit::kSample) return out;
  if (state.computed == n_known) {
    sample_row(row.n_tokens + row.n_draft_max - n_tokens, state, tables, out);
  } else if (!row.continues) {
    violate("a sample before the end of the context");
  }
  return out;
}

void FakeRunner::list_candidates(const Row& row,
                                 const State& state,
                                 const Tables& tables,
                                 SequenceResult& out) {
  if (state.computed != state.tokens.size()) return violate("candidates before the end");
  out.candidates = candidates_of(options_, read(tables, state.computed), row.n_candidates);
}

// Yields up to 1 + room tokens.
void FakeRunner::sample_row(std::uint32_t room,
                            State& state,
                            const Tables& tables,
                            SequenceResult& out) {
  const std::uint32_t first_new = state.computed;
  while (true) {
    const auto end = static_cast<std::uint32_t>(state.tokens.size());
    const std::uint64_t context = read(tables, end);
    out.tokens.push_back(sample_token(state, tables, out));
    if (state.finished || options_.drafts_in_vain || out.tokens.size() > room ||
        mix(context, 1) % 3 == 0)
      break;
    write_position(state, tables, end);
  }
  const auto last = static_cast<std::uint32_t>(state.tokens.size()) - 1;
  const bool forced = options_.forces_tokens && mix(last, 7) % 2 == 0;
  state.computed = out.next_position = forced ? std::min(first_new + room / 2, last) : last;
  if (forced) forget_keys(state, tables);
}

// The token behind all that is known.
OutputToken FakeRunner::sample_token(State& state, const Tables& tables, SequenceResult& out) {
  const std::size_t n_prompt = state.spec.prompt.size();
  const auto end = static_cast<std::uint32_t>(state.tokens.size());
  const SamplingParams& sampling = state.spec.sampling;
  const Sampled s =
      sample(options_, read(tables, end), sampling, end - static_cast<std::uint32_t>(n_prompt));
  OutputToken token;
  token.id = s.token;
  token.logprob = s.logprob;
  token.text = text_of(options_, s.token);
  for (std::uint32_t i = 0; i < sampling.n_top_tokens; ++i) {
    const TokenId id = options_.first_sampled + static_cast<TokenId>(i);
    token.alternatives.push_back({.id = id,
                                  .logprob = -static_cast<float>(i),
                                  .special = false,
                                  .text = text_of(options_, id)});
  }
  state.tokens.push_back(s.token);
  out.finish =
      finish_of(options_, state.spec.stopping, std::span(state.tokens).subspan(n_prompt), s);
  state.finished = out.finish.has_value();
  return token;
}

// As if the positions behind `computed` had never been written.
void FakeRunner::forget_keys(const State& state, const Tables& tables) {
  for (std::uint32_t p = state.computed; p + 1 < state.tokens.size(); ++p) {
    for (std::size_t g = 0; g < tables.size(); ++g) {
      const BlockId block = tables[g][block_of(p)];
      slots_[g][std::size_t{block} * options_.block_tokens + p % options_.block_tokens] = {};
    }
  }
}

Result<StepResult> FakeRunner::wait(StepTicket ticket, TimePoint until) {
  on_step(ticket.step);
  base::MutexLock lock(mu_);
  const auto is_free = [&]() REQUIRES(mu_) { return !held_; };
  if (until == TimePoint::max()) {
    changed_.wait(lock, is_free);
  } else if (!changed_.wait_until(lock, until, is_free)) {
    return not_yet(ticket);
  }
  if (jobs_.empty() || jobs_.front().plan.step != ticket.step) {
    violate("a ticket is waited for out of order");
    return internal_error("no such step");
  }
  if (clock_ != nullptr) {
    const bool ends = jobs_.front().ends_at <= until;
    *clock_ = std::max(*clock_, ends ? jobs_.front().ends_at : until);
    if (!ends) return not_yet(ticket);
  }
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  if (Status status = failure_of(ticket.step); !status.ok()) {
    for (auto& node : job.dropped) sequences_.insert(std::move(node));
    return status;
  }
  StepResult out;
  out.step = job.plan.step;
  out.epoch = options_.epoch;
  for (const BlockMove& move : job.plan.moves) move_block(move);
  for (const BlockTransfer& transfer : job.plan.imports) {
    if (Status status = import_blocks(transfer); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < job.plan.rows.size(); ++i) out.sequences.push_back(run_row(job, i));
  for (const BlockTransfer& transfer : job.plan.exports) export_blocks(transfer);
  out.timings = {.forward = std::chrono::nanoseconds(3),
                 .sample = std::chrono::nanoseconds(4),
                 .total = std::chrono::nanoseconds(8)};
  ++n_steps_;
  changed_.notify_all();
  return out;
}

}  // namespace coxswain::batch::testing
