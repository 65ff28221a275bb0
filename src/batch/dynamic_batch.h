#pragma once
// DynamicBatch: limits of a step that follow the lengths of the requests that finished last, as TensorRT-LLM's
// DynamicBatchConfig tunes them. Short requests let more of them run; many prompt tokens for each new one let a step
// take more of them.
//
// Thread rule: one engine thread.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "batch/engine.h"

namespace coxswain::batch {

class DynamicBatch {
 public:
  static constexpr std::uint32_t kNoLimit = 0xFFFFFFFFU;

  explicit DynamicBatch(const DynamicBatchOptions& options) : options_(options) {}

  // A request has finished.
  void note(std::uint32_t n_prompt_tokens, std::uint32_t n_new_tokens);

  // Sequences in one step, where the cache holds so many tokens (0: nobody knows). kNoLimit: not tuned, or no request
  // has finished yet.
  std::uint32_t batch_size_max(std::uint64_t cache_tokens) const;
  // Tokens in one step of so many sequences, decodes and prompts together. kNoLimit as above.
  std::uint32_t tokens_max(std::uint32_t batch_size) const;

 private:
  const DynamicBatchOptions options_;
  // A ring: tokens of the prompt, new ones.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> lengths_;
  std::size_t next_ = 0;
  std::uint64_t n_prompt_tokens_ = 0;  // sums over lengths_
  std::uint64_t n_new_tokens_ = 0;
};

}  // namespace coxswain::batch
