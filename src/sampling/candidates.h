#pragma once
// CandidateSet: the tokens that may still be chosen for one position, with their scores, ids ascending.
//
// It starts as the whole vocabulary and only ever shrinks; it never becomes empty. Steps are small
// functions over it: processors.h changes scores, warpers.h removes candidates.
//
// All memory is taken by the constructor; nothing allocates later. Thread rule: belongs to one thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::sampling {

class CandidateSet {
 public:
  explicit CandidateSet(std::size_t vocab_max);

  // All ids of a row, scores brought into +-kScoreMax. Ids at -infinity are left out unless all are.
  // Returns false, with no candidates, if the row holds a NaN.
  // REQUIRES: 0 < row.size() <= vocab_max.
  bool assign(std::span<const float> row);

  // As assign(), then only ids whose bit is set in `mask` (the lowest id in the lowest bit of the first word), without
  // a copy of the others: most masks of grammars let few ids through. False, with no candidates, if no id is left, and
  // for a row with values that assign() would change or leave out.
  [[nodiscard]] bool assign_masked(std::span<const float> row, std::span<const std::uint64_t> mask);

  std::size_t size() const { return size_; }
  TokenId id(std::size_t index) const { return dense_ ? static_cast<TokenId>(index) : ids_[index]; }
  std::span<float> scores() { return {scores_.data(), size_}; }
  std::span<const float> scores() const { return {scores_.data(), size_}; }
  // Whether it has every id of the row, so that an index is the id.
  bool is_whole() const { return dense_; }
  // Where `id` stands; empty if it is no candidate.
  std::optional<std::size_t> index_of(TokenId id) const;

  // Keeps the candidates for which keep(index) holds, called once per index in ascending order.
  // REQUIRES: at least one.
  template <typename Predicate>
  void keep_if(Predicate keep) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!keep(i)) continue;
      ids_[kept] = id(i);
      scores_[kept] = scores_[i];
      ++kept;
    }
    dense_ = dense_ && kept == size_;
    size_ = kept;
  }

  // Keeps the candidates at these indices. REQUIRES: ascending, not empty; may lie in the set's own index scratch.
  void keep(std::span<const std::uint32_t> indices);

  // The candidates at these indices leave. REQUIRES: ascending, each once, fewer than there are; may lie in the set's
  // own index scratch.
  void remove(std::span<const std::uint32_t> indices);

  // exp(score - largest score) of every candidate, their sum, and the sum of each block of
  // kSumBlock. Valid until the next call or the next change of the set.
  struct Weights {
    float max_score = 0.0F;
    std::size_t max_index = 0;  // the lowest that has it
    double sum = 0.0;
    std::span<float> values;
    std::span<const double> block_sums;
  };
  Weights weights();

  // Room for one value or index per candidate, for the steps. Contents are undefined.
  std::span<float> float_scratch() { return {float_scratch_.data(), size_}; }
  std::span<std::uint32_t> index_scratch() { return {index_scratch_.data(), size_}; }
  // Room for one index per id of the largest row; the same memory.
  std::span<std::uint32_t> vocab_scratch() { return index_scratch_; }
  std::span<double> bucket_scratch() { return buckets_; }
  static constexpr std::size_t kBuckets = 4096;

  // Bytes that a set for `vocab_max` ids takes.
  static std::size_t bytes(std::size_t vocab_max);

 private:
  std::vector<float> scores_;
  std::vector<TokenId> ids_;  // undefined while dense_
  std::vector<float> weights_;
  std::vector<double> block_sums_;
  std::vector<float> float_scratch_;
  std::vector<std::uint32_t> index_scratch_;
  std::vector<double> buckets_;
  std::size_t size_ = 0;
  bool dense_ = true;  // index == id
};

// -sum p log p, in nats. `weights` are those of `set`.
double entropy_of(const CandidateSet& set, const CandidateSet::Weights& weights);

}  // namespace coxswain::sampling
