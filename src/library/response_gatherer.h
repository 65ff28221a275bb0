#pragma once
// ResponseGatherer: collects the events of one request until somebody takes them, text included: one Response for each
// sequence that has something new. Where the best of them are chosen, there is nothing before all have ended.
//
// Thread rule: one thread at a time. Memory: the tokens that nobody has taken, and text that may become a stop string.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/request.h>
#include <coxswain/text_codec.h>
#include <coxswain/types.h>

#include "batch/engine.h"
#include "request/stop_holdback.h"

namespace coxswain::library {

class ResponseGatherer {
 public:
  // `n_best` > 0: so many of the request's sequences are given (Request::best_of). `codec` makes the texts of beams,
  // whose tokens come from several sequences of the runner; null: they are as the runner has them.
  explicit ResponseGatherer(const batch::GenerationRequest& request,
                            std::uint32_t n_best = 0,
                            std::shared_ptr<const TextCodec> codec = nullptr);

  // `parked_at`: where to fetch what a context-only request leaves. REQUIRES: no final event of the sequence was added.
  void add(batch::TokenEvent event, std::shared_ptr<const ParkedAt> parked_at = {});
  // What came of the first sequence that has news since it was last taken, nothing without news.
  Response take();
  bool has_news() const { return next_with_news() < parts_.size(); }
  std::uint32_t n_sequences() const { return static_cast<std::uint32_t>(parts_.size()); }
  bool has_ended(std::uint32_t sequence) const { return parts_[sequence].ended; }
  // Whether all have ended.
  bool answered() const { return n_open_ == 0; }
  std::size_t n_unread_tokens() const;
  RequestId id() const { return id_; }

 private:
  struct Part {
    explicit Part(const StoppingParams& stopping)
        : holdback(stopping.stop_sequences, stopping.stop_token_sequences) {}
    request::StopHoldback holdback;
    Response next;
    bool ended = false;

    double mean_logprob() const {
      return next.usage.n_generated_tokens == 0
                 ? 0.0
                 : next.cumulative_logprob / next.usage.n_generated_tokens;
    }
  };
  void choose();
  std::size_t next_with_news() const;
  void make_texts(std::vector<OutputToken>& tokens) const;

  RequestId id_{};
  std::uint32_t n_prompt_ = 0;
  std::uint32_t n_best_ = 0;
  std::shared_ptr<const TextCodec> codec_;
  std::vector<TokenId> context_;  // of the prompt's end, where the codec is needed
  std::vector<Part> parts_;       // per sequence
  std::size_t n_open_ = 0;
};

}  // namespace coxswain::library
