#include "serve/peer_files.h"

namespace coxswain::serve {

security::PeerFiles peer_files(const options::OptionValues& values) {
  return {.certificate = values.get<"fleet-cert-path">().value_or(""),
          .key = values.get<"fleet-key-path">().value_or(""),
          .ca = values.get<"fleet-ca-path">().value_or(""),
          .server_name = values.get<"fleet-server-name">().value_or("")};
}

Status check_fleet_files(const options::OptionValues& values, bool needed) {
  const security::PeerFiles files = peer_files(values);
  if (files.empty() && !needed) return {};
  if (files.certificate.empty() || files.key.empty() || files.ca.empty()) {
    return invalid_argument(
        "machines of a fleet know each other by `--fleet-cert-path`, `--fleet-key-path` and "
        "`--fleet-ca-path`: give all three");
  }
  return security::check_peer_files(files);
}

}  // namespace coxswain::serve
