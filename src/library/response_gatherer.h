#pragma once
// ResponseGatherer: collects the events of one request until somebody takes them, text included: one Response for each
// sequence that has something new.
//
// Thread rule: one thread at a time. Memory: the tokens that nobody has taken, and text that may become a stop string.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/request.h>
#include <coxswain/types.h>

#include "batch/engine.h"
#include "request/stop_holdback.h"

namespace coxswain::library {

class ResponseGatherer {
 public:
  explicit ResponseGatherer(const batch::GenerationRequest& request)
      : id_(request.id), n_prompt_(static_cast<std::uint32_t>(request.prompt.size())) {
    for (std::uint32_t i = 0; i < request.n_sequences(); ++i)
      parts_.emplace_back(request.stopping.stop_sequences);
    n_open_ = parts_.size();
  }

  // REQUIRES: no final event of the sequence was added.
  void add(batch::TokenEvent event);
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
    explicit Part(std::vector<std::string> stops) : holdback(std::move(stops)) {}
    request::StopHoldback holdback;
    Response next;
    bool ended = false;
  };
  std::size_t next_with_news() const;

  RequestId id_{};
  std::uint32_t n_prompt_ = 0;
  std::vector<Part> parts_;  // per sequence
  std::size_t n_open_ = 0;
};

}  // namespace coxswain::library
