#include "membership/etcd.h"

namespace coxswain::membership {

Result<std::vector<std::string>> parse_endpoints(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t comma = text.find(',');
    std::string_view one = text.substr(0, comma);
    while (one.ends_with('/')) one.remove_suffix(1);
    const std::size_t scheme = one.starts_with("https://") ? 8 : one.starts_with("http://") ? 7 : 0;
    if (scheme == 0 || !check_address(one.substr(scheme)).ok()) {
      return invalid_argument("an endpoint must be http://HOST:PORT or https://HOST:PORT. Given: " +
                              std::string(one));
    }
    out.emplace_back(one);
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace coxswain::membership
