#pragma once
// Call: one client request between validation and the last byte of its answer.
//
// A call owns one sequence for each of best_of, n and the prompts of a batch. Its sequences are submitted to the engine
// together; what they produce reaches deliver() in order on the delivery thread, which writes the answer. Of a sequence
// whose answer does not stream only the final event does: its tokens are gathered where the engine hands them over. A
// failed sequence fails the call and cancels the others; a client that goes away cancels all of them at once.
//
// Thread rule: start() on any thread, once. deliver(), keep_alive() and fail() by whoever delivers (delivery.h). The
// engine asks for stalled() on its own thread; abandon(), cancel() and describe() may be called from any thread.
//
// Life: held by the sinks that the engine owns and by queued events; the engine and the delivery
// must outlive the server's connections.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "api/answer.h"
#include "api/errors.h"
#include "batch/engine.h"
#include "http/server.h"
#include "router/pace.h"
#include "router/permits.h"
#include "router/request_log.h"
#include "router/request_trace.h"
#include "router/tally.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace coxswain::router {

class Delivery;

// Which figures the headers of a whole answer, and its line in the log, give.
enum class TimingHeaders : std::uint8_t {
  kBestSequence,    // of the sequence that was chosen, with x-compute-time
  kChoices,         // times of the best one, tokens of all
  kSumOfSequences,  // added up, without x-compute-time
};

struct CallSetup {
  std::shared_ptr<http::Responder> responder;
  api::ApiStyle style = api::ApiStyle::kNative;
  std::unique_ptr<api::AnswerFormat> format;
  std::vector<api::SequenceAnswer> sequences;      // as far as known before the first token
  std::vector<batch::GenerationRequest> requests;  // one for each prompt
  std::vector<http::Header> headers;               // of the answer
  TimingHeaders timing = TimingHeaders::kBestSequence;
  // What the route calls these fields of the engine's request, for refusals of the engine.
  std::string prompt_field = "inputs";
  std::string max_new_tokens_field = "max_new_tokens";
  std::size_t per_prompt = 1;  // neighbouring sequences that share one prompt: those of a request
  std::string request_id;      // for the log
  std::string answer_id;       // of its document, if it has one
  std::string path;
  std::string key_name;  // whose request it is, for the log
  TimePoint received{};
  RequestTrace trace;
  std::size_t unsent_bytes_max = 256 << 10;
  Permits permits;
  Pace* pace = nullptr;  // outlives the call; null: its end is not counted
};

// What a call tells about itself while it is open; nothing of its texts.
struct OpenRequest {
  std::string request_id = {};
  std::string answer_id = {};  // empty: its answer has none
  std::string path = {};
  std::string key_name = {};  // empty: no key is asked for
  TimePoint received{};
  std::uint64_t prompt_tokens = 0;       // of all prompts
  std::uint64_t generated_tokens = 0;    // of all sequences, so far
  std::vector<RequestId> requests = {};  // of the engine, one for each prompt
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(CallSetup setup,
       RequestTally tally,
       batch::RequestDoor& door,
       Delivery& delivery,
       telemetry::Metrics* metrics,
       telemetry::Logger& log);

  // Submits every request. Failures arrive through deliver() like any other event.
  void start();

  void deliver(std::size_t sequence, batch::TokenEvent event);
  // Writes a comment, or a blank between lines, if nothing was written for `interval`; returns when to ask again. The
  // first one starts the stream.
  TimePoint keep_alive(TimePoint now, std::chrono::milliseconds interval);
  // Ends the call with an error now, if it has not ended.
  void fail(const Status& status);

  // From any thread.
  OpenRequest describe() const;
  const std::string& key_name() const { return setup_.key_name; }

  bool ended() const { return ended_; }
  bool streams() const { return setup_.format->streams(); }

  // The client is gone: cancels all sequences.
  void abandon();
  // Somebody wants it to end: the same, and the client is told.
  void cancel();

 private:
  class Sink;

  bool stalled(std::size_t n_pending) const;
  void note_tokens(std::size_t index, const batch::TokenEvent& event);
  Status client_status(const Status& status) const;
  void leave(std::size_t n_served);
  void absorb(api::SequenceAnswer& sequence, batch::TokenEvent& event) const;
  void write_events(const std::vector<std::string>& events);
  void begin_stream(std::string_view first);
  void complete();
  void observe(const api::SequenceAnswer& sequence) const;
  struct Figures;
  Figures figures() const;
  std::vector<http::Header> timing_headers(const Figures& figures) const;
  RequestRecord record(const Figures& figures) const;

  CallSetup setup_;
  RequestTally tally_;
  batch::RequestDoor& door_;
  Delivery& delivery_;
  telemetry::Metrics* metrics_;
  telemetry::Logger& log_;
  std::vector<RequestId> ids_;
  std::uint64_t n_prompt_tokens_ = 0;
  std::atomic<std::uint64_t> n_generated_{0};
  std::vector<TimePoint> tokens_at_;    // by sequence: its last ones; of the engine's thread
  std::atomic<bool> abandoned_{false};  // no sequence is to run any more
  std::atomic<bool> cancelled_{false};  // on purpose

  // Of whoever delivers.
  bool begun_ = false;
  bool ended_ = false;
  std::size_t n_finished_ = 0;  // sequences
  TimePoint written_at_{};
};

}  // namespace coxswain::router
