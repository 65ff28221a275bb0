#include "runner/drafts.h"

#include <algorithm>
#include <bit>

namespace coxswain::runner {
namespace {

// A copy of the last tokens is one of two tokens at least; longer ones are told apart up to so many, among so many of
// the latest places.
constexpr std::size_t kPair = 2;
constexpr std::size_t kCommonMax = 8;
constexpr std::size_t kPlacesMax = 16;
constexpr std::size_t kTextMin = 64;

// What is thought of a guess before any has been seen, and how much each moves that.
constexpr double kChance = 0.3;
constexpr double kChanceOfDraft = 0.8;
constexpr double kLearn = 0.2;

// Steps count for so much less with each one after them.
constexpr double kForget = 0.99;
// Until steps with several numbers of rows were seen, what a step costs beside its rows is taken to be as much as so
// many of them; it counts as this much of a difference of one row.
constexpr double kRowsOfStart = 8;
constexpr double kPriorWeight = 0.5;
// A step that took much longer than it should was disturbed.
constexpr double kOutlier = 3;

std::size_t hash_of(TokenId a, TokenId b) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;
  const std::uint64_t first = static_cast<std::uint32_t>(a) * kOdd;
  return static_cast<std::size_t>(((first ^ static_cast<std::uint32_t>(b)) * kOdd) >> 32);
}

}  // namespace

Drafter::Drafter(std::span<const TokenId> draft)
    : n_draft_(draft.size()), chance_(draft.empty() ? kChance : kChanceOfDraft) {
  for (const TokenId token : draft) push(token);
}

void Drafter::follow(std::span<const TokenId> prompt, std::span<const TokenId> output) {
  while (text_.size() < n_draft_ + prompt.size()) {
    push(prompt[text_.size() - n_draft_]);
    // Before the first output the draft is the guess.
    if (text_.size() == n_draft_ + prompt.size()) match_ = n_draft_ > 0 ? 0 : find();
  }
  while (text_.size() - n_draft_ - prompt.size() < output.size()) {
    const TokenId token = output[text_.size() - n_draft_ - prompt.size()];
    const bool guessed = has_guess();
    const bool right = guessed && text_[match_] == token;
    if (guessed) chance_ += kLearn * ((right ? 1.0 : 0.0) - chance_);
    push(token);
    if (right) {
      ++n_right_;
      ++match_;
      continue;
    }
    // Where nothing like it is found, one token was another: a name in a copied text, say.
    const bool stays = guessed && (n_right_ >= kPair || match_ < n_draft_);
    const std::size_t behind = stays ? match_ + 1 : text_.size();
    match_ = find();
    if (match_ == text_.size()) match_ = behind;
    n_right_ = 0;
  }
}

std::span<const TokenId> Drafter::guess(std::size_t n) const {
  return std::span(text_).subspan(match_, std::min(n, text_.size() - match_));
}

void Drafter::push(TokenId token) {
  text_.push_back(token);
  prev_.push_back(0);
  if (text_.size() > head_.size()) {
    head_.assign(std::max(kTextMin, 2 * head_.size()), 0);
    for (std::size_t end = kPair; end < text_.size(); ++end) link(end);
  } else if (text_.size() > kPair) {
    link(text_.size() - 1);  // the last pair is looked up first
  }
}

// Of the pair that ends before `end`; 0 ends none.
void Drafter::link(std::size_t end) {
  std::uint32_t& head = head_[hash_of(text_[end - 2], text_[end - 1]) & (head_.size() - 1)];
  prev_[end] = head;
  head = static_cast<std::uint32_t>(end);
}

std::size_t Drafter::find() const {
  const std::size_t n = text_.size();
  if (n < kPair) return n;
  std::size_t best = n;
  std::size_t best_common = kPair - 1;
  std::size_t end = head_[hash_of(text_[n - 2], text_[n - 1]) & (head_.size() - 1)];
  for (std::size_t i = 0; i < kPlacesMax && end != 0; ++i, end = prev_[end]) {
    const std::size_t length = common(end);
    if (length <= best_common) continue;
    best = end;
    best_common = length;
    if (length == kCommonMax) break;
  }
  return best;
}

// How many tokens before `end` are the last ones of the text, up to kCommonMax.
std::size_t Drafter::common(std::size_t end) const {
  const std::size_t most = std::min(end, kCommonMax);
  std::size_t n = 0;
  while (n < most && text_[end - 1 - n] == text_[text_.size() - 1 - n]) ++n;
  return n;
}

std::size_t RowCosts::size_of(std::size_t n_base) {
  return std::min<std::size_t>(std::bit_width(n_base), kSizes - 1);
}

RowCosts::Line RowCosts::line_of(const Sums& sums) {
  if (sums.weight == 0) return {.start = kRowsOfStart, .slope = 1};
  const double x = sums.x / sums.weight;
  const double y = sums.y / sums.weight;
  const double spread = std::max(0.0, sums.xx - sums.x * x);
  const double together = sums.xy - sums.x * y;
  const double expected = y / (kRowsOfStart + x);
  const double slope =
      std::clamp((together + kPriorWeight * expected) / (spread + kPriorWeight), 0.0, y / x);
  return {.start = y - slope * x, .slope = slope};
}

void RowCosts::observe(std::size_t n_base, std::size_t n_rows, double seconds) {
  Sums& sums = sums_[size_of(n_base)];
  const auto x = static_cast<double>(n_rows);
  if (sums.weight > 1) {
    const Line line = line_of(sums);
    seconds = std::min(seconds, kOutlier * (line.start + line.slope * x));
  }
  for (double* sum : {&sums.weight, &sums.x, &sums.y, &sums.xx, &sums.xy}) *sum *= kForget;
  sums.weight += 1;
  sums.x += x;
  sums.y += seconds;
  sums.xx += x * x;
  sums.xy += x * seconds;
}

double RowCosts::price(std::size_t n_base, std::size_t n_tokens) const {
  const Line line = line_of(sums_[size_of(n_base)]);
  const double step = line.start + line.slope * static_cast<double>(n_base);
  return step > 0 ? line.slope * static_cast<double>(n_tokens) / step : 0;
}

double RowCosts::step_seconds(std::size_t n_base) const {
  const Sums& sums = sums_[size_of(n_base)];
  if (sums.weight == 0) return 0;
  const Line line = line_of(sums);
  return line.start + line.slope * static_cast<double>(n_base);
}

double RowCosts::row_seconds(std::size_t n_base) const {
  const Sums& sums = sums_[size_of(n_base)];
  return sums.weight == 0 ? 0 : line_of(sums).slope;
}

}  // namespace coxswain::runner
