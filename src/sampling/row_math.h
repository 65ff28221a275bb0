#pragma once
// Passes over one row of scores, written so that a compiler turns them into vector code.
//
// Every result is a pure function of the row: sums run over fixed blocks of kSumBlock
// elements in kLanes partial sums, then over the blocks in order, in double. Inputs are
// finite unless said otherwise.

#include <cstddef>
#include <cstdint>
#include <span>

namespace coxswain::sampling {

inline constexpr std::size_t kLanes = 16;
inline constexpr std::size_t kSumBlock = 1024;

// Scores beyond this are brought back to it, so that differences and quotients of scores stay finite.
inline constexpr float kScoreMax = 1e30F;

struct RowSummary {
  bool has_nan = false;
  float max = -kScoreMax;  // clamped to +-kScoreMax
  std::size_t argmax = 0;  // lowest index that has it
};

// `row` may hold infinities and NaN. REQUIRES: not empty.
RowSummary summarise(std::span<const float> row);

// Largest value. REQUIRES: not empty, no NaN.
float max_of(std::span<const float> row);

struct CopyFindings {
  bool has_nan = false;
  bool has_negative_infinity = false;
};

// Copies with every value brought into +-kScoreMax.
CopyFindings copy_clamped(std::span<const float> from, std::span<float> to);

// Whether every value is one that copy_clamped() copies as it is.
bool is_within_score_max(std::span<const float> row);

// values[i] / divisor, brought into +-kScoreMax. REQUIRES: divisor > 0.
void divide(std::span<float> values, float divisor);

// Sum of exp(row[i] - max) with row[i] brought into +-kScoreMax first. REQUIRES: max >= every clamped value.
double sum_exp(std::span<const float> row, float max);

// weights[i] = exp(row[i] - max), 0 below exp(-87). Returns the sum of each block of kSumBlock in
// `block_sums` [ceil(n / kSumBlock)] and the sum of those.
double exp_weights(std::span<const float> row,
                   float max,
                   std::span<float> weights,
                   std::span<double> block_sums);

// block_max[b] = largest of row[b * block, (b + 1) * block). The last block may be short. REQUIRES: no NaN.
void block_maxima(std::span<const float> row, std::size_t block, std::span<float> block_max);

// Writes the indices of all values >= threshold, ascending, and returns how many; fast where they
// are few. REQUIRES: out.size() >= row.size(), no NaN.
std::size_t indices_at_least(std::span<const float> row,
                             float threshold,
                             std::span<std::uint32_t> out);

// The square root of the mean squared distance from the mean. REQUIRES: not empty, every value within +-kScoreMax.
double standard_deviation(std::span<const float> row);

}  // namespace coxswain::sampling
