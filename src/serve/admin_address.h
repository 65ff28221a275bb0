#pragma once
// AdminAddress: where --admin-listen listens. Whoever reaches it needs no key, so it is on the loopback only.
//
// Thread rule: pure functions.

#include <cstdint>
#include <string>
#include <string_view>

#include <coxswain/status.h>

namespace coxswain::serve {

struct AdminAddress {
  std::string host;        // an address
  std::uint16_t port = 0;  // 0: any free one
};

// "127.0.0.1:9100", "localhost:9100", "[::1]:9100". Errors: kInvalidArgument that says what is wrong with the text.
Result<AdminAddress> parse_admin_address(std::string_view text);

}  // namespace coxswain::serve
