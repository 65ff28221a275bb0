#pragma once
// AdminAddress: where --admin-listen listens, which asks for no key: on the loopback, or at a Unix socket.
//
// Thread rule: pure functions.

#include <cstdint>
#include <string>
#include <string_view>

#include <coxswain/status.h>

namespace coxswain::serve {

struct AdminAddress {
  std::string host;        // an address, or the path of a Unix socket: it begins with /
  std::uint16_t port = 0;  // 0: any free one

  bool is_path() const { return host.starts_with('/'); }
};

// "127.0.0.1:9100", "localhost:9100", "[::1]:9100", "unix:/run/coxswain/admin". Errors: kInvalidArgument that says what
// is wrong with the text.
Result<AdminAddress> parse_admin_address(std::string_view text);

}  // namespace coxswain::serve
