#pragma once
// Fetcher: one GET of HTTP, its body in pieces. The seam below which tests put a hub of their own.
//
// Thread rule: one thread at a time.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <coxswain/status.h>

namespace coxswain::hub {

struct FetchRequest {
  std::string url;
  // Sent as bearer to the URL's own host only, after a redirect too; empty: none.
  std::string token{};
  std::uint64_t offset = 0;  // the first byte that is asked for
};

struct FetchHead {
  int status = 0;  // of HTTP, after redirects
  // Where the body begins in the file; not what was asked for if the server ignores ranges.
  std::uint64_t offset = 0;
  std::string message{};  // X-Error-Message, cut at 256 bytes
};

// Called for each piece of the body of a 200 or 206. An error ends the transfer.
using FetchSink = std::function<Status(const FetchHead&, std::string_view piece)>;

class Fetcher {
 public:
  virtual ~Fetcher() = default;
  // Errors: the sink's; kUnavailable if there was no answer, or if it broke off. Another status of HTTP is none.
  virtual Result<FetchHead> get(const FetchRequest& request, const FetchSink& sink) = 0;
};

}  // namespace coxswain::hub
