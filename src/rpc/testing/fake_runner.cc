#include "rpc/testing/fake_runner.h"

#include <limits>
#include <utility>

namespace coxswain::rpc::testing {

TokenId expected_token(std::span<const TokenId> history) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const TokenId id : history) hash = (hash ^ static_cast<std::uint64_t>(id)) * 0x100000001b3u;
  return static_cast<TokenId>(10 + 'a' + (hash >> 32) % 26);
}

std::vector<TokenId> expected_tokens(std::span<const TokenId> prompt, std::size_t n) {
  std::vector<TokenId> history(prompt.begin(), prompt.end());
  for (std::size_t i = 0; i < n; ++i) history.push_back(expected_token(history));
  return {history.begin() + static_cast<std::ptrdiff_t>(prompt.size()), history.end()};
}

float expected_logprob(TokenId token, std::size_t position) {
  return -static_cast<float>(token) / 100.0F - static_cast<float>(position);
}

RunnerInfo FakeRunner::default_info() {
  RunnerInfo info;
  info.engine_version = "fake-1";
  info.epoch = 77;
  info.model_id = "fake";
  info.model_type = "fake";
  info.dtype = "float32";
  info.kernel_set_id = "none";
  info.model_fingerprint = 5;
  info.vocab_size = kFakeVocabulary;
  info.n_layers = 2;
  info.max_position_embeddings = 200;
  info.block_tokens = 4;
  info.kv_groups = {{.layers = {0, 1},
                     .kind = KvGroup::Kind::kFull,
                     .window = 0,
                     .bytes_per_block = 64,
                     .n_blocks = 64}};
  info.eos_token_ids = {kEndToken};
  info.capabilities = {.plans_chunks = true,
                       .selects_rows = true,
                       .grows_blocks = true,
                       .takes_ids = true,
                       .look_ahead = true};
  return info;
}

Result<StepTicket> FakeRunner::submit(StepPlan plan) {
  std::lock_guard lock(mu_);
  if (in_flight_.size() >= (info_.capabilities.look_ahead ? 2U : 1U))
    return internal_error("too many in flight");
  const StepTicket ticket{plan.step};
  in_flight_.push_back(std::move(plan));
  ++n_submitted_;
  changed_.notify_all();
  return ticket;
}

Result<StepResult> FakeRunner::wait(StepTicket ticket) {
  std::unique_lock lock(mu_);
  changed_.wait(lock, [&] { return !held_; });
  if (in_flight_.empty() || in_flight_.front().step != ticket.step)
    return internal_error("unknown ticket");
  const StepPlan plan = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (!next_failure_.ok()) return std::exchange(next_failure_, Status());
  auto result = run_locked(plan);
  ++n_steps_;
  changed_.notify_all();
  return result;
}

Status FakeRunner::healthy() {
  std::lock_guard lock(mu_);
  return health_;
}

void FakeRunner::hold() {
  std::lock_guard lock(mu_);
  held_ = true;
}

void FakeRunner::release() {
  std::lock_guard lock(mu_);
  held_ = false;
  changed_.notify_all();
}

void FakeRunner::set_health(Status status) {
  std::lock_guard lock(mu_);
  health_ = std::move(status);
}

void FakeRunner::fail_next(Status status) {
  std::lock_guard lock(mu_);
  next_failure_ = std::move(status);
}

void FakeRunner::fail_sequences_starting_with(TokenId token) {
  std::lock_guard lock(mu_);
  failing_start_ = token;
}

std::set<SequenceId> FakeRunner::live() const {
  std::lock_guard lock(mu_);
  std::set<SequenceId> out;
  for (const auto& [id, sequence] : sequences_) out.insert(id);
  return out;
}

std::uint64_t FakeRunner::n_steps() const {
  std::lock_guard lock(mu_);
  return n_steps_;
}

std::uint64_t FakeRunner::n_submitted() const {
  std::lock_guard lock(mu_);
  return n_submitted_;
}

void FakeRunner::wait_for_submitted(std::uint64_t n) const {
  std::unique_lock lock(mu_);
  changed_.wait(lock, [&] { return n_submitted_ >= n; });
}

void FakeRunner::wait_for_live(std::size_t n) const {
  std::unique_lock lock(mu_);
  changed_.wait(lock, [&] { return sequences_.size() == n; });
}

Result<StepResult> FakeRunner::run_locked(const StepPlan& plan) {
  for (const SequenceId id : plan.dropped) sequences_.erase(id);
  for (const SequenceSpec& spec : plan.new_sequences) {
    if (sequences_.contains(spec.id)) return internal_error("a sequence was added twice");
    sequences_[spec.id] = {.spec = spec,
                           .tables = std::vector<std::vector<BlockId>>(info_.kv_groups.size()),
                           .output = spec.produced,
                           .previous = std::nullopt};
  }
  for (const BlockCopy& copy : plan.copies) kv_[copy.to] = kv_[copy.from];
  StepResult result;
  result.step = plan.step;
  result.epoch = info_.epoch;
  std::set<SequenceId> seen;
  for (const Row& row : plan.rows) {
    if (!sequences_.contains(row.sequence))
      return internal_error("a row names an unknown sequence");
    if (!seen.insert(row.sequence).second) return internal_error("two rows of one sequence");
    result.sequences.push_back(run_row(row));
    if (!result.sequences.back().status.ok()) sequences_.erase(row.sequence);
  }
  result.timings = {.forward = std::chrono::nanoseconds(3),
                    .sample = std::chrono::nanoseconds(4),
                    .total = std::chrono::nanoseconds(8)};
  return result;
}

Status FakeRunner::apply_changes(const Row& row, Sequence& sequence) {
  for (const BlockTableChange& change : row.table_changes) {
    std::vector<BlockId>& table = sequence.tables.at(change.kv_group);
    if (change.first_index > table.size()) return internal_error("a hole in a block table");
    table.resize(change.first_index);
    table.insert(table.end(), change.blocks.begin(), change.blocks.end());
  }
  return {};
}

std::uint32_t* FakeRunner::slot(const Sequence& sequence, std::uint32_t position) {
  const std::size_t index = position / info_.block_tokens;
  for (const auto& table : sequence.tables) {
    if (index >= table.size()) return nullptr;
  }
  std::vector<std::uint32_t>& block = kv_[sequence.tables[0][index]];
  block.resize(info_.block_tokens);
  return &block[position % info_.block_tokens];
}

// Writes the tokens of the row and reads the whole history back.
Status FakeRunner::write_row(const Row& row, Sequence& sequence, std::vector<TokenId>& history) {
  std::vector<TokenId> tokens = row.tokens;
  if (row.from_previous_step) {
    if (!sequence.previous) return internal_error("no token of the previous step");
    tokens = {*sequence.previous};
  }
  for (std::uint32_t i = 0; i < row.n_tokens; ++i) {
    std::uint32_t* cell = slot(sequence, row.first_position + i);
    if (cell == nullptr) return internal_error("a position has no block");
    *cell = static_cast<std::uint32_t>(tokens[i]);
  }
  for (std::uint32_t position = 0; position < row.first_position + row.n_tokens; ++position) {
    history.push_back(static_cast<TokenId>(*slot(sequence, position)));
  }
  return {};
}

SequenceResult FakeRunner::run_row(const Row& row) {
  Sequence& sequence = sequences_.at(row.sequence);
  SequenceResult result;
  result.sequence = row.sequence;
  std::vector<TokenId> history;
  result.status = apply_changes(row, sequence);
  if (result.status.ok()) result.status = write_row(row, sequence, history);
  if (failing_start_ && sequence.spec.prompt.front() == *failing_start_) {
    result.status = Status(Code::kInternal, ErrorKind::kGeneration, "told to fail");
  }
  if (!result.status.ok()) return result;
  if (row.prompt_logprobs) {
    for (std::uint32_t p = row.first_position; p < row.first_position + row.n_tokens; ++p) {
      const TokenId id = history[p];
      const float logprob =
          p == 0 ? std::numeric_limits<float>::quiet_NaN() : expected_logprob(id, p);
      result.prompt.push_back({.id = id, .logprob = logprob, .text = FakeCodec().token_text(id)});
    }
  }
  if (row.emit == Emit::kNone) return result;
  OutputToken token;
  token.id = expected_token(history);
  token.logprob = expected_logprob(token.id, history.size());
  token.text = FakeCodec().token_text(token.id);
  for (std::uint32_t i = 0; i < sequence.spec.sampling.n_top_tokens; ++i) {
    const auto id = static_cast<TokenId>(10 + 'a' + i);
    token.alternatives.push_back({.id = id,
                                  .logprob = -static_cast<float>(i),
                                  .special = false,
                                  .text = FakeCodec().token_text(id)});
  }
  sequence.previous = token.id;
  sequence.output.push_back(token.id);
  result.tokens.push_back(std::move(token));
  result.finish = finish_of(sequence);
  return result;
}

std::optional<SequenceFinish> FakeRunner::finish_of(const Sequence& sequence) const {
  const std::string text = FakeCodec().decode(sequence.output, true);
  if (sequence.output.size() >= sequence.spec.stopping.max_new_tokens) {
    return SequenceFinish{
        .reason = FinishReason::kLength, .generated_text = text, .stop_text_begin = text.size()};
  }
  for (const std::string& stop : sequence.spec.stopping.stop_sequences) {
    if (!text.ends_with(stop)) continue;
    return SequenceFinish{.reason = FinishReason::kStopSequence,
                          .generated_text = text,
                          .stop_text_begin = text.size() - stop.size()};
  }
  return std::nullopt;
}

Result<std::vector<TokenId>> FakeCodec::encode(std::string_view text,
                                               bool add_special_tokens) const {
  std::vector<TokenId> ids;
  if (add_special_tokens) ids.push_back(kBeginToken);
  for (const char c : text) ids.push_back(10 + static_cast<TokenId>(static_cast<unsigned char>(c)));
  return ids;
}

std::string FakeCodec::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text;
  for (const TokenId id : ids) {
    if (!skip_special || !is_special(id)) text += token_text(id);
  }
  return text;
}

namespace {

class FakeStream final : public TextCodec::Stream {
 public:
  std::string push(TokenId token) override { return FakeCodec().token_text(token); }
  std::string finish() override { return {}; }
};

}  // namespace

std::unique_ptr<TextCodec::Stream> FakeCodec::stream(std::span<const TokenId>, bool) const {
  return std::make_unique<FakeStream>();
}

std::string FakeCodec::token_text(TokenId id) const {
  if (id == kBeginToken) return "<s>";
  if (id == kEndToken) return "</s>";
  return {static_cast<char>(id - 10)};
}

}  // namespace coxswain::rpc::testing
