#pragma once
// A GET of HTTP/1.0 over a socket of its own, for small documents of this machine.
//
// Thread rule: any thread; the call waits.

#include <chrono>
#include <cstdint>
#include <string>

#include <coxswain/status.h>

namespace coxswain::fleet {

// The body. `host` is an address, or the path of a Unix socket, which begins with / and has no port; each wait for the
// other side lasts `patience` at most. Errors: kUnavailable: nobody listens, the connection broke, it took too long or
// the answer has above 4 MiB; kFailedPrecondition: another status than 200.
Result<std::string> http_get(const std::string& host,
                             std::uint16_t port,
                             const std::string& path,
                             std::chrono::milliseconds patience);

}  // namespace coxswain::fleet
