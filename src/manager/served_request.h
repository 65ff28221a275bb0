#pragma once
// ServedRequest: one request of a ManagerLoop, from its acceptance to its final response. It takes the engine's events,
// which only collect, and says what there is to send.
//
// A request has one sequence, or `num_return_sequences` of them. Each of these has responses of its own; the last one
// of all is the request's final one. A beam search is one sequence, whose beams are rows of its responses. One that
// fails ends the request: the error is its final response, and nothing else is sent behind it.
//
// Thread rule: one thread, the loop's.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/named_tensor.h>
#include <coxswain/status.h>

#include "batch/engine.h"
#include "manager/response_tensors.h"

namespace coxswain::manager {

class ServedRequest final : public batch::TokenSink,
                            public std::enable_shared_from_this<ServedRequest> {
 public:
  // What has something to send, in the order of events; outlives the request.
  using News = std::vector<std::shared_ptr<ServedRequest>>;

  // `answers`: one for each sequence; `n_beams` of the engine's answers are rows of each of them.
  ServedRequest(News& news, std::uint64_t id, std::vector<Answer> answers, std::uint32_t n_beams);

  void on_event(batch::TokenEvent event) override;
  // Has it among the news once, until it is taken from there.
  void list();
  void unlist() { listed_ = false; }

  std::uint64_t id() const { return id_; }
  std::uint32_t n_sequences() const { return static_cast<std::uint32_t>(parts_.size()); }
  // Whether the sequence has something to send: its end, or of a stream new tokens.
  bool has_news(std::uint32_t sequence) const;
  std::vector<NamedTensor> take(std::uint32_t sequence);
  // All sequences have ended, and all of them was taken.
  bool is_told() const { return n_open_ == 0 && n_untold_ == 0; }
  bool has_ended() const { return n_open_ == 0; }

  // What it has when its sequences are cancelled is its answer.
  void stop() { stopped_ = true; }
  // The first error stays.
  void fail(std::string error);
  // Why there is no answer; empty: nothing is wrong.
  const std::string& error() const { return error_; }

  std::uint64_t output_bytes = 0;  // of the logits that it may yield

 private:
  struct Part {
    Answer answer;
    std::uint32_t n_open;  // rows whose last event has not come
    bool ended() const { return n_open == 0; }
    bool told = false;
  };

  News& news_;
  const std::uint64_t id_;
  const std::uint32_t n_beams_;
  std::vector<Part> parts_;
  std::size_t n_open_;    // sequences that have not ended
  std::size_t n_untold_;  // whose end was not taken
  bool listed_ = false;
  bool stopped_ = false;
  std::string error_;
};

}  // namespace coxswain::manager
