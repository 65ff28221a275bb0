#pragma once
// ResponseGatherer: collects the events of one request until somebody takes them as one Response, text included.
//
// Thread rule: one thread at a time. Memory: the tokens that nobody has taken, and text that may become a stop string.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/request.h>
#include <coxswain/types.h>

#include "batch/engine.h"
#include "request/stop_holdback.h"

namespace coxswain::library {

class ResponseGatherer {
 public:
  explicit ResponseGatherer(const batch::GenerationRequest& request)
      : holdback_(request.stopping.stop_sequences),
        n_prompt_(static_cast<std::uint32_t>(request.prompt.size())) {
    next_.id = request.id;
  }

  // REQUIRES: no final event was added.
  void add(batch::TokenEvent event);
  // What came since the last call.
  Response take();
  bool has_news() const { return !next_.empty(); }
  std::size_t n_unread_tokens() const { return next_.tokens.size(); }
  RequestId id() const { return next_.id; }

 private:
  request::StopHoldback holdback_;
  std::uint32_t n_prompt_ = 0;
  Response next_;
};

}  // namespace coxswain::library
