// Requests as bytes on a connection: whole, byte by byte and at drawn cuts, every event, request
// and refusal must be the same.
//
// First byte: bit 0 = bodies are discarded, bit 1 = wide limits; it also seeds the cuts.

#include <algorithm>
#include <string>

#include "fuzz/fuzz_input.h"
#include "http/request_parser.h"

namespace {

using coxswain::fuzz::Draw;
using coxswain::fuzz::require;
namespace http = coxswain::http;
using Event = http::RequestParser::Event;

http::ParserLimits limits_for(std::uint8_t flags) {
  http::ParserLimits limits;
  if ((flags & 2) != 0) return limits;
  limits.request_line_bytes_max = 40;
  limits.header_line_bytes_max = 48;
  limits.header_count_max = 6;
  limits.headers_bytes_max = 160;
  limits.body_bytes_max = 64;
  return limits;
}

void check_head(const http::ParsedHead& head) {
  require(!head.method.empty() && !head.path.empty(), "a head has method and path");
  require(!head.chunked || head.content_length == 0, "one way to tell where a body ends");
}

// Everything that a connection would act on, as text.
class Reader {
 public:
  explicit Reader(std::uint8_t flags)
      : limits_(limits_for(flags)), parser_(limits_), discards_((flags & 1) != 0) {}

  bool done() const { return done_; }
  void feed(std::string_view bytes) {
    while (!done_) {
      const http::RequestParser::Step step = parser_.parse(bytes);
      require(step.consumed <= bytes.size(), "no more is consumed than given");
      bytes.remove_prefix(step.consumed);
      if (step.event == Event::kNeedMore) {
        require(bytes.empty(), "nothing is left where more is needed");
        return;
      }
      take(step.event);
      if (bytes.empty() && step.event == Event::kComplete) return;
    }
  }
  std::string finish() {
    return trace_ + (parser_.idle() ? "idle" : parser_.in_body() ? "in body" : "open");
  }

 private:
  void take(Event event) {
    if (event == Event::kHead) {
      const http::ParsedHead& head = parser_.head();
      check_head(head);
      trace_ += "head " + head.method + " " + head.path + "?" + head.query +
                (head.keep_alive ? " keep" : " close") + (head.expects_continue ? " wait" : "") +
                (head.chunked ? " chunked" : "") + std::to_string(head.content_length) + "\n";
      for (const auto& [name, value] : head.headers) trace_ += name + "=" + value + "\n";
      if (discards_) parser_.discard_body();
    } else if (event == Event::kComplete) {
      require(parser_.body().size() <= limits_.body_bytes_max, "a body is within its limit");
      require(!discards_ || parser_.body().empty(), "a discarded body is not kept");
      trace_ += "body " + parser_.body() + "\n";
      parser_.reset();
      require(parser_.idle(), "after a request nothing of it is left");
    } else {
      const http::Refusal& refusal = parser_.refusal();
      require(refusal.status >= 400 && !refusal.why.ok(), "a refusal has a status and a reason");
      trace_ += "refused " + std::to_string(refusal.status) + " " + refusal.why.message() + "\n";
      done_ = true;
    }
  }

  http::ParserLimits limits_;
  http::RequestParser parser_;
  bool discards_;
  bool done_ = false;
  std::string trace_;
};

// REQUIRES: n_max > 0.
std::string read_in_parts(std::uint8_t flags, std::string_view bytes, std::size_t n_max) {
  Reader reader(flags);
  Draw draw(flags);
  while (!bytes.empty() && !reader.done()) {
    const std::size_t n = std::min(bytes.size(), 1 + draw.below(n_max));
    reader.feed(bytes.substr(0, n));
    bytes.remove_prefix(n);
  }
  return reader.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  coxswain::fuzz::Input input(data, size);
  const std::uint8_t flags = input.byte();
  Reader reader(flags);
  reader.feed(input.rest());
  const std::string whole = reader.finish();
  require(read_in_parts(flags, input.rest(), 1) == whole, "byte by byte is the same");
  require(read_in_parts(flags, input.rest(), 7) == whole, "short parts are the same");
  require(read_in_parts(flags, input.rest(), 60) == whole, "long parts are the same");
  return 0;
}
