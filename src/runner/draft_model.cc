#include "runner/draft_model.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/numbers.h"
#include "runner/best_ids.h"
#include "runner/sequence_state.h"

namespace coxswain::runner {
namespace {

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::size_t kLogitRowsMax = 64;

}  // namespace

// Positions [0, n_known) have the keys of the sequence's tokens, those behind them the keys of `guessed`.
struct DraftModel::Followed final : StepSource::Kept {
  explicit Followed(DraftModel& from) : model(from) {}
  ~Followed() override { model.release(*this); }

  DraftModel& model;
  std::vector<BlockId> blocks;
  std::size_t n_known = 0;
  std::vector<TokenId> guessed;
  std::uint64_t asked_last = 0;
};

kvstore::KvStoreOptions DraftModel::store_options(const model::Model& model,
                                                  const DraftModelOptions& options) {
  const std::uint32_t n_blocks = std::max(1U, base::ceil_div(options.kv_tokens, kBlockTokens));
  return {.type = options.kv_type,
          .block_tokens = kBlockTokens,
          .n_blocks = std::vector<std::uint32_t>(model.info().kv_groups.size(), n_blocks),
          .layers = model.info().kv_layers};
}

std::uint64_t DraftModel::kv_bytes_per_token(const model::Model& model,
                                             const DraftModelOptions& options) {
  const kvstore::KvStoreOptions store = store_options(model, options);
  std::uint64_t out = 0;
  for (std::uint32_t group = 0; group < store.n_blocks.size(); ++group)
    out += kvstore::KvStore::bytes_per_block(store, group);
  return out / kBlockTokens;
}

std::uint64_t DraftModel::bytes(const model::Model& model,
                                const DraftModelOptions& options,
                                std::size_t n_threads) {
  const model::ModelInfo& info = model.info();
  const kvstore::KvStoreOptions store = store_options(model, options);
  std::uint64_t out = info.weight_bytes + model.workspace_bytes(kRowsMax, kLogitRowsMax, n_threads);
  for (std::uint32_t group = 0; group < store.n_blocks.size(); ++group)
    out += store.n_blocks[group] * kvstore::KvStore::bytes_per_block(store, group);
  return out + sizeof(float) * (kRowsMax * std::uint64_t{info.hidden_size} +
                                kLogitRowsMax * std::uint64_t{info.vocab_size});
}

Result<std::unique_ptr<DraftModel>> DraftModel::create(std::unique_ptr<model::Model> model,
                                                       const DraftModelOptions& options,
                                                       kernels::ExecContext& exec) {
  std::unique_ptr<DraftModel> out(new DraftModel(std::move(model), options, exec));
  const kvstore::KvStoreOptions store = store_options(*out->model_, options);
  COXSWAIN_ASSIGN_OR_RETURN(out->kv_, kvstore::KvStore::create(store));
  COXSWAIN_RETURN_IF_ERROR(out->model_->reserve(kRowsMax, kLogitRowsMax, exec));
  for (BlockId block = store.n_blocks.front(); block > 0; --block) out->free_.push_back(block - 1);
  const model::ModelInfo& info = out->model_->info();
  out->options_.vocab_size = std::min(options.vocab_size, info.vocab_size);
  out->hidden_.resize(kRowsMax * info.hidden_size);
  out->logits_.resize(kLogitRowsMax * info.vocab_size);
  return out;
}

std::unique_ptr<StepSource::Kept> DraftModel::open() {
  return std::make_unique<Followed>(*this);
}

DraftModel::Followed& DraftModel::followed_in(const SequenceState& state) {
  return static_cast<Followed&>(*state.kept);
}

// What was guessed and is right by now need not be computed again.
void DraftModel::follow(Followed& followed, const SequenceState& state) const {
  for (const TokenId token : followed.guessed) {
    if (followed.n_known + 1 >= state.length() || state.token_at(followed.n_known) != token) break;
    ++followed.n_known;
  }
  followed.guessed.clear();
}

std::size_t DraftModel::n_first_rows(SequenceState& state) {
  if (state.length() + options_.n_max > model_->info().max_position_embeddings) return 0;
  Followed& followed = followed_in(state);
  follow(followed, state);
  return state.length() - followed.n_known;
}

void DraftModel::release(Followed& followed) {
  if (followed.blocks.empty()) return;
  free_.insert(free_.end(), followed.blocks.begin(), followed.blocks.end());
  std::erase(followed_, &followed);
  followed.blocks.clear();
  followed.n_known = 0;
  followed.guessed.clear();
}

bool DraftModel::lend(Followed& followed, std::size_t n_tokens) {
  const std::size_t n_blocks = base::ceil_div<std::size_t>(n_tokens, kBlockTokens);
  while (followed.blocks.size() < n_blocks) {
    if (free_.empty()) {
      const auto oldest = std::ranges::min_element(followed_, {}, &Followed::asked_last);
      if (oldest == followed_.end() || (*oldest)->asked_last == serial_) return false;
      release(**oldest);
      continue;
    }
    if (followed.blocks.empty()) followed_.push_back(&followed);
    followed.blocks.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void DraftModel::add_rows(const Asked& asked, std::size_t first_position) {
  model::SequenceRows& rows = batch_.emplace_back();
  rows.first_row = tokens_.size();
  rows.n_rows = asked.n_rows;
  rows.first_position = static_cast<std::int32_t>(first_position);
  rows.rope_length = asked.wanted->state->rope_length();
  rows.block_tables.assign(model_->info().kv_groups.size(), asked.followed->blocks);
}

Status DraftModel::run() {
  COXSWAIN_RETURN_IF_ERROR(
      model_->forward({.tokens = tokens_, .sequences = batch_},
                      {.begin = 0, .end = model_->info().n_layers},
                      std::span(hidden_).first(tokens_.size() * model_->info().hidden_size),
                      *kv_,
                      exec_));
  return choose(chosen_);
}

Status DraftModel::run_timed() {
  const auto begin = std::chrono::steady_clock::now();
  COXSWAIN_RETURN_IF_ERROR(run());
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  costs_.observe(tokens_.size(), time.count());
  return {};
}

Status DraftModel::choose(std::vector<TokenId>& ids) {
  const std::size_t width = model_->info().vocab_size;
  ids.resize(last_rows_.size());
  for (std::size_t done = 0; done < ids.size(); done += kLogitRowsMax) {
    const std::size_t n = std::min(kLogitRowsMax, ids.size() - done);
    COXSWAIN_RETURN_IF_ERROR(model_->logits(hidden_,
                                            std::span(last_rows_).subspan(done, n),
                                            std::span(logits_).first(n * width),
                                            exec_));
    find_best_ids(exec_,
                  std::span(logits_).first(n * width),
                  width,
                  options_.vocab_size,
                  std::span(ids).subspan(done, n));
  }
  return {};
}

// What is known of a sequence and not computed, as far as there is room in the batch.
void DraftModel::ask(Wanted& wanted) {
  Followed& followed = followed_in(*wanted.state);
  Asked asked{.wanted = &wanted, .followed = &followed};
  asked.n_rows = std::min(n_first_rows(*wanted.state), kRowsMax - tokens_.size());
  if (asked.n_rows == 0 || !lend(followed, followed.n_known + asked.n_rows + wanted.n)) return;
  add_rows(asked, followed.n_known);
  for (std::size_t i = 0; i < asked.n_rows; ++i)
    tokens_.push_back(wanted.state->token_at(followed.n_known + i));
  followed.n_known += asked.n_rows;
  if (followed.n_known < wanted.state->length()) return;
  last_rows_.push_back(static_cast<std::uint32_t>(tokens_.size() - 1));
  asked.n_rows = 1;
  asked_.push_back(asked);
}

void DraftModel::clear_batch() {
  tokens_.clear();
  batch_.clear();
  last_rows_.clear();
}

void DraftModel::guess(std::span<Wanted> wanted) {
  ++serial_;
  asked_.clear();
  clear_batch();
  // Those that have blocks already are not sent away for others.
  for (const Wanted& one : wanted) followed_in(*one.state).asked_last = serial_;
  // Prompts wait where there is no room for all.
  for (const bool far_behind : {false, true}) {
    for (Wanted& one : wanted)
      if ((n_first_rows(*one.state) > kBlockTokens) == far_behind) ask(one);
  }
  while (!tokens_.empty()) {
    // A token that the model has no row for: what was computed is not known.
    if (!run_timed().ok()) {
      for (const Wanted& one : wanted) {
        release(followed_in(*one.state));
        one.state->kept->chance = 0;
      }
      return;
    }
    for (std::size_t i = 0; i < asked_.size(); ++i) asked_[i].wanted->ids.push_back(chosen_[i]);
    std::erase_if(asked_, [](const Asked& asked) {
      const Wanted& one = *asked.wanted;
      return one.ids.size() == one.n || one.state->is_end(one.ids.back());
    });
    clear_batch();
    for (const Asked& asked : asked_) {
      add_rows(asked, asked.followed->n_known + asked.followed->guessed.size());
      last_rows_.push_back(static_cast<std::uint32_t>(tokens_.size()));
      tokens_.push_back(asked.wanted->ids.back());
      asked.followed->guessed.push_back(tokens_.back());
    }
  }
}

// The rows stand in a block that belongs to nobody yet. The first batch of a size faults memory in.
Status DraftModel::measure() {
  constexpr int kTimes = 4;
  for (const std::size_t n : {1U, 4U, 16U}) {
    clear_batch();
    tokens_.assign(n, 0);
    model::SequenceRows& rows = batch_.emplace_back();
    rows.n_rows = n;
    rows.rope_length = static_cast<std::uint32_t>(n);
    rows.block_tables.assign(model_->info().kv_groups.size(), std::span(free_).last(1));
    last_rows_.push_back(static_cast<std::uint32_t>(n - 1));
    for (int i = 0; i < kTimes; ++i) COXSWAIN_RETURN_IF_ERROR(i == 0 ? run() : run_timed());
  }
  return {};
}

}  // namespace coxswain::runner
