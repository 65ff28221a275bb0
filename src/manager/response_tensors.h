#pragma once
// Answer -> named tensors: collects what a request yields and makes the tensors of its responses.
//
// Thread rule: one thread.

#include <cstdint>
#include <optional>
#include <vector>

#include <coxswain/named_tensor.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

#include "batch/engine.h"
#include "manager/request_tensors.h"

namespace coxswain::manager {

class Answer {
 public:
  // `prompt` stands in front of the output of a request that does not stream; empty: it is left out.
  // `vocab_size`: width of the logits. `index`: which of several sequences it is.
  Answer(const OutputWishes& wishes,
         std::vector<TokenId> prompt,
         std::uint32_t vocab_size,
         std::optional<std::uint32_t> index)
      : wishes_(wishes),
        vocab_size_(vocab_size),
        index_(index),
        prompt_(std::move(prompt)),
        beams_(wishes.n_beams) {}

  // What has come of beam `row`, 0 without a search: the tokens and what belongs to them. Logits are moved out of it.
  void add(const batch::TokenEvent& event, std::uint32_t row);
  bool streams() const { return wishes_.streaming; }
  bool has_news() const { return has_news_; }  // tokens since the last take()

  // The tensors of one response. A stream's has what came since the last one; otherwise there is one response, with
  // everything. Of beams each response has them whole. b: beams, best first; n: the most ids of a beam in the response,
  // o: the most output tokens of one; what is shorter is filled up with the pad id and with 0.
  //   output_ids [1, b, n] int32; sequence_length [1, b] int32: how many ids are the beam's
  //   sequence_index [1] int32, of one of several sequences
  //   context_logits [1, prompt, V] float32, once; generation_logits [1, 1, o, V] float32
  //   output_log_probs [1, b, o] float32; cum_log_probs [1, b] float32: the sum from the first output token on
  std::vector<NamedTensor> take();

 private:
  struct Beam {
    std::vector<TokenId> ids;
    std::vector<float> log_probs;
    double cum_log_prob = 0.0;
  };
  OutputWishes wishes_;
  std::uint32_t vocab_size_;
  std::optional<std::uint32_t> index_;
  std::vector<TokenId> prompt_;
  std::vector<Beam> beams_;
  SequenceOutputs outputs_;
  bool has_news_ = false;
};

}  // namespace coxswain::manager
