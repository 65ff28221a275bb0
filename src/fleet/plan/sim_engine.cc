#include "fleet/plan/sim_engine.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace coxswain::fleet {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;

nanoseconds of_seconds(double s) {
  return duration_cast<nanoseconds>(duration<double>(s));
}

}  // namespace

void SimEngine::add_prompt(nanoseconds now, std::uint32_t request, std::uint32_t n_tokens) {
  prompts_.push_back({.added = now, .request = request, .n_tokens = n_tokens});
  queued_tokens_ += n_tokens;
  has_news_ = true;
}

void SimEngine::go_on(std::uint32_t request, std::uint32_t context, std::uint32_t n_left) {
  add_decode(nanoseconds::min(), request, context, n_left);
}

void SimEngine::add_decode(nanoseconds now,
                           std::uint32_t request,
                           std::uint32_t context,
                           std::uint32_t n_left) {
  arriving_.push_back({.added = now, .request = request, .context = context, .n_left = n_left});
  has_news_ = true;
}

std::uint32_t SimEngine::n_queued() const {
  return static_cast<std::uint32_t>(
      std::count_if(prompts_.begin(), prompts_.end(), [](const Prompt& p) { return !p.decided; }));
}

std::uint64_t SimEngine::prompt_tokens() const {
  return std::transform_reduce(
      prompts_.begin(), prompts_.end(), std::uint64_t{0}, std::plus<>(), [](const Prompt& p) {
        return std::uint64_t{p.n_tokens};
      });
}

std::optional<nanoseconds> SimEngine::next(nanoseconds now, double prompt_share) {
  if (n_steps_ == 0) {
    begin(now, prompt_share);
  } else if (has_news_ && !has_prompts_) {
    cut(now);
  }
  has_news_ = false;
  if (n_steps_ == 0) return std::nullopt;
  return began_ + of_seconds(seconds_of(n_steps_));
}

void SimEngine::take_arriving(nanoseconds until) {
  std::erase_if(arriving_, [&](const Arriving& a) {
    if (a.added > until) return false;
    decodes_.push(
        {.ends = clock_ + a.n_left, .request = a.request, .context_then = a.context + a.n_left});
    context_ += a.context;
    return true;
  });
}

// The step's chunk of the prompts; returns its seconds.
double SimEngine::take_prompts(nanoseconds until) {
  std::uint32_t room = rules_.step_prompt_tokens;
  std::size_t n_sequences = decodes_.size();
  double seconds = 0.0;
  for (Prompt& prompt : prompts_) {
    if (room == 0 || prompt.added > until || n_sequences++ >= rules_.batch_max) break;
    const std::uint32_t n = std::min(room, prompt.n_tokens - prompt.n_done);
    const double context = static_cast<double>(n) * prompt.n_done + 0.5 * n * (n + 1.0);
    seconds += times_.prompt_token * n + times_.prompt_context * context;
    decide(prompt);
    prompt.n_done += n;
    room -= n;
  }
  return seconds;
}

void SimEngine::decide(Prompt& prompt) {
  if (!std::exchange(prompt.decided, true)) queued_tokens_ -= prompt.n_tokens;
}

// What is there when a step begins is taken by the next one, as far as it has room.
void SimEngine::decide_next() {
  std::uint32_t room = rules_.step_prompt_tokens;
  std::size_t n_sequences = decodes_.size();
  for (Prompt& prompt : prompts_) {
    if (room == 0 || n_sequences++ >= rules_.batch_max) return;
    const std::uint32_t n = std::min(room, prompt.n_tokens - prompt.n_done);
    room -= n;
    if (n > 0) decide(prompt);
  }
}

void SimEngine::begin(nanoseconds now, double prompt_share) {
  const bool follows = rules_.look_ahead && now == ended_;
  take_arriving(follows ? decided_ : now);
  double of_prompts = take_prompts(follows ? decided_ : now);
  if (follows && of_prompts == 0.0 && decodes_.empty()) {  // there was nothing to decide
    take_arriving(now);
    of_prompts = take_prompts(now);
  }
  n_decoding_ = decodes_.size();
  has_prompts_ = of_prompts > 0.0;
  if (!has_prompts_ && n_decoding_ == 0) return;
  began_ = now;
  const double n = static_cast<double>(n_decoding_);
  // Each attends to itself, too.
  first_s_ = times_.step + times_.decode * n +
             times_.decode_context * (static_cast<double>(context_) + n) +
             of_prompts * prompt_share;
  growth_s_ = times_.decode_context * n;
  n_steps_ = has_prompts_ ? 1 : decodes_.top().ends - clock_;
  // Something that waits is taken by the second step at the earliest.
  if (!arriving_.empty() || !prompts_.empty()) n_steps_ = 1;
  if (rules_.look_ahead) decide_next();
}

double SimEngine::seconds_of(std::uint64_t n_steps) const {
  const double n = static_cast<double>(n_steps);
  return first_s_ * n + growth_s_ * n * (n - 1.0) / 2.0;
}

void SimEngine::cut(nanoseconds now) {
  const double elapsed = duration<double>(now - began_).count();
  std::uint64_t low = 1;
  std::uint64_t high = n_steps_;
  while (low < high) {  // the first step that ends at `now` or later
    const std::uint64_t middle = (low + high) / 2;
    if (seconds_of(middle) >= elapsed) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  n_steps_ = std::min(n_steps_, low + (rules_.look_ahead ? 1 : 0));
}

SimEngine::Ended SimEngine::end() {
  Ended out;
  if (n_decoding_ > 0) {
    out.gap_s = seconds_of(n_steps_) / static_cast<double>(n_steps_);
    out.n_gaps = n_decoding_ * n_steps_;
  }
  decided_ = began_ + of_seconds(seconds_of(n_steps_ - 1));
  ended_ = began_ + of_seconds(seconds_of(n_steps_));
  clock_ += n_steps_;
  context_ += n_decoding_ * n_steps_;
  n_steps_ = 0;
  while (!decodes_.empty() && decodes_.top().ends <= clock_) {
    out.sequences.push_back(decodes_.top().request);
    context_ -= decodes_.top().context_then;
    decodes_.pop();
  }
  while (!prompts_.empty() && prompts_.front().n_done == prompts_.front().n_tokens) {
    out.prompts.push_back(prompts_.front().request);
    prompts_.pop_front();
  }
  return out;
}

}  // namespace coxswain::fleet
