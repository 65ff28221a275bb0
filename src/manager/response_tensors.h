#pragma once
// Answer -> named tensors: collects what a request yields and makes the tensors of its responses.
//
// Thread rule: one thread.

#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/named_tensor.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

#include "manager/request_tensors.h"

namespace coxswain::manager {

class Answer {
 public:
  // `prompt` stands in front of the output of a request that does not stream; empty: it is left out.
  // `vocab_size`: width of the logits.
  Answer(const OutputWishes& wishes, std::vector<TokenId> prompt, std::uint32_t vocab_size)
      : wishes_(wishes), vocab_size_(vocab_size), ids_(std::move(prompt)) {}

  void add(std::span<const OutputToken> tokens, SequenceOutputs outputs);
  bool streams() const { return wishes_.streaming; }
  bool has_news() const { return has_news_; }  // tokens since the last take()

  // The tensors of one response. A stream's has what came since the last one; otherwise there is one response, with
  // everything. n: ids of the response, o: output tokens of the response.
  //   output_ids [1, 1, n] int32; sequence_length [1, 1] int32: n
  //   context_logits [1, prompt, V] float32, once; generation_logits [1, 1, o, V] float32
  //   output_log_probs [1, 1, o] float32; cum_log_probs [1, 1] float32: the sum from the first output token on
  std::vector<NamedTensor> take();

 private:
  OutputWishes wishes_;
  std::uint32_t vocab_size_;
  std::vector<TokenId> ids_;
  std::vector<float> log_probs_;
  SequenceOutputs outputs_;
  double cum_log_prob_ = 0.0;
  bool has_news_ = false;
};

}  // namespace coxswain::manager
