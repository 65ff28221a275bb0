#pragma once
// Fetcher: one GET of HTTP, its body in pieces. The seam below which tests put a hub of their own.
//
// Thread rule: one thread at a time.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <coxswain/status.h>

namespace coxswain::hub {

struct FetchRequest {
  std::string url;
  // Sent as bearer to the URL's own host only, after a redirect too; empty: none.
  std::string token{};
  std::uint64_t offset = 0;  // the first byte that is asked for
  std::uint64_t end = 0;     // behind the last one; 0: to the end of the file
};

struct FetchHead {
  int status = 0;  // of HTTP, after redirects
  // Where the body begins in the file; not what was asked for if the server ignores ranges.
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> total{};  // bytes of the whole file, where a range says so
  std::chrono::seconds retry_after{0};   // that the server asks to wait; 0: it does not say
  std::string message{};                 // X-Error-Message, cut at 256 bytes
};

// Called for each piece of the body of a 200 or 206. An error ends the transfer.
using FetchSink = std::function<Status(const FetchHead&, std::string_view piece)>;

class Fetcher {
 public:
  virtual ~Fetcher() = default;
  // Errors: the sink's; kUnavailable if there was no answer, or if it broke off. Another status of HTTP is none.
  virtual Result<FetchHead> get(const FetchRequest& request, const FetchSink& sink) = 0;
};

// One for each thread that fetches.
using FetcherFactory = std::function<std::unique_ptr<Fetcher>()>;

}  // namespace coxswain::hub
