#pragma once
// PeerFiles: how the machines of a fleet know one another. Without OpenSSL and without locks, for those who hand the
// files to gRPC.
//
// Thread rule: values and pure functions.

#include <string>

#include <coxswain/status.h>

namespace coxswain::security {

// What the machines of a fleet show one another, and whom they believe: both ends of a connection have all three.
struct PeerFiles {
  std::string certificate{};  // PEM, with the chain behind it
  std::string key{};          // PEM, without a password
  std::string ca{};           // PEM: whoever has a certificate of it is one of the fleet
  std::string server_name{};  // in certificates of those who listen; empty: their address

  bool empty() const { return certificate.empty() && key.empty() && ca.empty(); }
};

// Whether others would believe who shows these files now. Errors: kInvalidArgument that names option, file and reason:
// no PEM, another key, a certificate that has expired or is of another authority.
Status check_peer_files(const PeerFiles& files);

}  // namespace coxswain::security
