#include "serve/admin_address.h"

#include <charconv>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace coxswain::serve {
namespace {

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace

Result<AdminAddress> parse_admin_address(std::string_view text) {
  const auto wrong = [&](const char* why) {
    return invalid_argument("`admin_listen` " + std::string(why) + ". Given: " + std::string(text));
  };
  if (constexpr std::string_view kUnix = "unix:"; text.starts_with(kUnix)) {
    const std::string_view path = text.substr(kUnix.size());
    if (!path.starts_with('/')) return wrong("must have a path that begins with / behind unix:");
    if (path.size() >= sizeof(sockaddr_un{}.sun_path)) {
      return wrong(("must have a path of at most " +
                    std::to_string(sizeof(sockaddr_un{}.sun_path) - 1) + " bytes behind unix:")
                       .c_str());
    }
    return AdminAddress{.host = std::string(path)};
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return wrong("must be an address and a port, such as 127.0.0.1:9100, or unix:PATH");
  AdminAddress out;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
    return wrong("must end in a port from 0 to 65535");
  out.host = text.substr(0, colon);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  if (out.host == "localhost") out.host = "127.0.0.1";
  if (!is_loopback(out.host))
    return wrong("must be an address of the loopback (127.0.0.1, ::1): it asks for no key");
  return out;
}

}  // namespace coxswain::serve
