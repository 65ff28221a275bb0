#include "sampling/candidates.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <numeric>

#include "base/scalar_math.h"
#include "sampling/row_math.h"

namespace coxswain::sampling {
namespace {

std::size_t block_count(std::size_t n) {
  return (n + kSumBlock - 1) / kSumBlock;
}

}  // namespace

CandidateSet::CandidateSet(std::size_t vocab_max)
    : scores_(vocab_max),
      ids_(vocab_max),
      weights_(vocab_max),
      block_sums_(block_count(vocab_max)),
      float_scratch_(vocab_max),
      index_scratch_(vocab_max),
      buckets_(kBuckets) {}

std::size_t CandidateSet::bytes(std::size_t vocab_max) {
  const std::size_t per_id = 3 * sizeof(float) + sizeof(TokenId) + sizeof(std::uint32_t);
  return vocab_max * per_id + (block_count(vocab_max) + kBuckets) * sizeof(double);
}

bool CandidateSet::assign(std::span<const float> row) {
  assert(!row.empty() && row.size() <= scores_.size());
  size_ = row.size();
  dense_ = true;
  const CopyFindings found = copy_clamped(row, scores());
  if (found.has_nan) {
    size_ = 0;
    return false;
  }
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  const auto is_allowed = [&](float value) { return value != kForbidden; };
  if (found.has_negative_infinity && std::any_of(row.begin(), row.end(), is_allowed)) {
    keep_if([&](std::size_t i) { return is_allowed(row[i]); });
  }
  return true;
}

bool CandidateSet::assign_masked(std::span<const float> row, std::span<const std::uint64_t> mask) {
  assert(!row.empty() && row.size() <= scores_.size());
  size_ = 0;
  if (!is_within_score_max(row)) return false;
  constexpr std::size_t kBits = 64;
  const std::size_t n_words = std::min(mask.size(), (row.size() + kBits - 1) / kBits);
  for (std::size_t word = 0; word < n_words; ++word) {
    const std::size_t first = word * kBits;
    std::uint64_t left = mask[word];
    if (row.size() - first < kBits) left &= (std::uint64_t{1} << (row.size() - first)) - 1;
    if (left == ~std::uint64_t{0}) {  // as most are within a string
      std::copy_n(row.data() + first, kBits, scores_.data() + size_);
      std::iota(ids_.data() + size_, ids_.data() + size_ + kBits, static_cast<TokenId>(first));
      size_ += kBits;
      continue;
    }
    for (; left != 0; left &= left - 1) {
      const std::size_t id = first + static_cast<std::size_t>(std::countr_zero(left));
      ids_[size_] = static_cast<TokenId>(id);
      scores_[size_++] = row[id];
    }
  }
  dense_ = size_ == row.size();
  return size_ > 0;
}

void CandidateSet::keep(std::span<const std::uint32_t> indices) {
  for (std::size_t kept = 0; kept < indices.size(); ++kept) {
    const std::size_t i = indices[kept];
    ids_[kept] = id(i);
    scores_[kept] = scores_[i];
  }
  dense_ = dense_ && indices.size() == size_;
  size_ = indices.size();
}

// The pieces between the indices move together, so that few of them cost little more than a copy.
void CandidateSet::remove(std::span<const std::uint32_t> indices) {
  if (indices.empty()) return;
  const auto at = [](auto& values, std::size_t i) {
    return values.begin() + static_cast<std::ptrdiff_t>(i);
  };
  std::size_t kept = indices.front();
  if (dense_) std::iota(ids_.begin(), at(ids_, kept), TokenId{0});
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t begin = indices[i] + 1;
    const std::size_t end = i + 1 < indices.size() ? indices[i + 1] : size_;
    std::copy(at(scores_, begin), at(scores_, end), at(scores_, kept));
    if (dense_) {
      std::iota(at(ids_, kept), at(ids_, kept + (end - begin)), static_cast<TokenId>(begin));
    } else {
      std::copy(at(ids_, begin), at(ids_, end), at(ids_, kept));
    }
    kept += end - begin;
  }
  dense_ = false;
  size_ = kept;
}

std::optional<std::size_t> CandidateSet::index_of(TokenId id) const {
  if (dense_) {
    if (id < 0 || static_cast<std::size_t>(id) >= size_) return std::nullopt;
    return static_cast<std::size_t>(id);
  }
  const auto end = ids_.begin() + static_cast<std::ptrdiff_t>(size_);
  const auto at = std::lower_bound(ids_.begin(), end, id);
  if (at == end || *at != id) return std::nullopt;
  return static_cast<std::size_t>(at - ids_.begin());
}

CandidateSet::Weights CandidateSet::weights() {
  Weights out;
  const RowSummary best = summarise(scores());
  out.max_score = scores()[best.argmax];
  out.max_index = best.argmax;
  out.values = {weights_.data(), size_};
  const std::span<double> sums(block_sums_.data(), block_count(size_));
  out.sum = exp_weights(scores(), out.max_score, out.values, sums);
  out.block_sums = sums;
  return out;
}

// With log p = score - max - log(sum).
double entropy_of(const CandidateSet& set, const CandidateSet::Weights& weights) {
  const double log_sum = base::log(weights.sum);
  double entropy = 0.0;
  const std::span<const float> scores = set.scores();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (weights.values[i] == 0.0F) continue;
    const double log_p = static_cast<double>(scores[i] - weights.max_score) - log_sum;
    entropy -= static_cast<double>(weights.values[i]) / weights.sum * log_p;
  }
  return entropy;
}

}  // namespace coxswain::sampling
