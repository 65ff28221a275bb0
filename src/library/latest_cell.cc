#include "library/latest_cell.h"

#include <utility>

#include "base/thread_name.h"

namespace coxswain {
namespace library {
namespace {

// The word: bit 63 nobody has taken it, bit 62 final, the rest counts tokens.
constexpr std::uint64_t kNew = std::uint64_t{1} << 63U;
constexpr std::uint64_t kFinal = std::uint64_t{1} << 62U;

}  // namespace

bool LatestCell::begin(const batch::GenerationRequest& request, std::function<void()> cancel) {
  if (used_.exchange(true)) return false;
  tokens_.resize(request.stopping.max_new_tokens);
  logprobs_.resize(request.stopping.max_new_tokens);
  n_prompt_ = static_cast<std::uint32_t>(request.prompt.size());
  tell_engine_ = std::move(cancel);
  begun_.store(true);
  return true;
}

bool LatestCell::write(const batch::TokenEvent& event) {
  for (const OutputToken& token : event.tokens) {
    if (n_written_ == tokens_.size()) break;  // a runner that yields more than was asked for
    tokens_[n_written_] = token.id;
    logprobs_[n_written_] = token.logprob;
    ++n_written_;
  }
  std::uint64_t word = n_written_ | kNew;
  if (event.final) {
    last_ = {.n_tokens = n_written_,
             .final = true,
             .status = event.status,
             .usage = {.n_prompt_tokens = n_prompt_,
                       .n_cached_prompt_tokens = event.n_cached_prompt_tokens,
                       .n_generated_tokens = event.n_generated}};
    if (event.finish) last_.finish = event.finish->reason;
    word |= kFinal;
  }
  state_.store(word, std::memory_order_release);
  if (!on_change_ || (!event.final && wakes_ == LatestState::Wakes::kFinalOnly)) return false;
  return !is_queued_.exchange(true);
}

void LatestCell::signal() {
  is_queued_.store(false);
  // The consumer has seen it without being woken: perhaps the final one, behind which there is no call.
  if ((state_.load(std::memory_order_acquire) & kNew) == 0) return;
  // What it throws is the consumer's own affair.
  try {
    on_change_();
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

std::optional<AnswerState> LatestCell::take() {
  std::uint64_t word = state_.load(std::memory_order_acquire);
  do {
    if ((word & kNew) == 0) return std::nullopt;
  } while (!state_.compare_exchange_weak(word, word & ~kNew, std::memory_order_acq_rel));
  if ((word & kFinal) != 0) return last_;
  return AnswerState{.n_tokens = static_cast<std::uint32_t>(word)};
}

void LatestCell::cancel() {
  if (cancelled_.exchange(true) || !begun_.load()) return;
  tell_engine_();
}

SignalThread::~SignalThread() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void SignalThread::push(std::shared_ptr<LatestCell> cell) {
  {
    base::MutexLock lock(mu_);
    cells_.push_back(std::move(cell));
  }
  changed_.notify_one();
}

void SignalThread::loop() {
  base::name_thread("signals");
  std::vector<std::shared_ptr<LatestCell>> cells;
  while (true) {
    {
      base::MutexLock lock(mu_);
      changed_.wait(lock, [&]() REQUIRES(mu_) { return stopping_ || !cells_.empty(); });
      if (cells_.empty()) return;
      cells.swap(cells_);
    }
    for (const auto& cell : cells) cell->signal();
    cells.clear();
  }
}

}  // namespace library

LatestState::LatestState(std::function<void()> on_change, Wakes wakes)
    : cell_(std::make_shared<library::LatestCell>(std::move(on_change), wakes)) {}

std::optional<AnswerState> LatestState::take() {
  return cell_->take();
}

std::span<const TokenId> LatestState::tokens(const AnswerState& state) const {
  return cell_->tokens(state.n_tokens);
}

std::span<const float> LatestState::logprobs(const AnswerState& state) const {
  return cell_->logprobs(state.n_tokens);
}

void LatestState::cancel() {
  cell_->cancel();
}

}  // namespace coxswain
