#include "membership/members.h"

#include <algorithm>
#include <charconv>

namespace coxswain::membership {
namespace {

constexpr std::string_view kRoleNames[] = {"mixed", "prefill", "decode"};

bool is_port(std::string_view digits) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc() && end == digits.data() + digits.size() && port > 0;
}

// Nothing that would end the host in the middle of what a client dials.
bool is_host(std::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    return host.find_first_not_of("0123456789abcdefABCDEF:.", 1) == host.size() - 1;
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_';
  });
}

}  // namespace

std::string_view name_of(Role role) {
  return kRoleNames[static_cast<std::size_t>(role)];
}

Result<Role> parse_role(std::string_view text) {
  const auto at = std::ranges::find(kRoleNames, text);
  if (at != std::end(kRoleNames)) return static_cast<Role>(at - std::begin(kRoleNames));
  return invalid_argument("`role` must be mixed, prefill or decode. Given: " + std::string(text),
                          "role");
}

Status check_address(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon != std::string_view::npos && is_host(address.substr(0, colon)) &&
      is_port(address.substr(colon + 1))) {
    return {};
  }
  return invalid_argument(
      "`address` must be a host and a port of 1 to 65535, such as shard-0:9000 or [fd00::1]:9000. "
      "Given: " +
          std::string(address),
      "address");
}

Result<Members> checked(Members members) {
  std::ranges::sort(members, {}, &Member::name);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (member.name.empty())
      return invalid_argument("`name` of a member must not be empty", "name");
    if (Status status = check_address(member.address); !status.ok())
      return status.with_context("member " + member.name);
    if (i > 0 && members[i - 1].name == member.name)
      return invalid_argument("`name` must be another one for each member. Twice: " + member.name,
                              "name");
  }
  return members;
}

}  // namespace coxswain::membership
