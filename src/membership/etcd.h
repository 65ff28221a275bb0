#pragma once
// etcd as a source of members, and the shard's side of it, over the JSON gateway of its v3 API (etcd 3.4 and later).
//
// A member is a key with a lease, PREFIX/NAME, and its value a JSON object: "address", "role" (mixed without it) and
// "incarnation". Keys that are no members are counted and left alone. Several endpoints are members of one cluster: one
// that does not answer is passed over for the next.
//
// Thread rule: as Membership.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "membership/http_client.h"
#include "membership/membership.h"

namespace coxswain::membership {

struct EtcdOptions {
  std::vector<std::string> endpoints{};  // "http://host:port" or "https://host:port"
  std::string prefix = "/coxswain";      // without a slash at its end
  TlsFiles tls{};
  std::string user{};  // empty: none
  std::string password{};
};

// The endpoints of a text with commas between them. Errors: kInvalidArgument that quotes the one that is wrong.
Result<std::vector<std::string>> parse_endpoints(std::string_view text);

// REQUIRES: an endpoint.
std::unique_ptr<Membership> make_etcd_membership(EtcdOptions options);

struct RegistrationStatus {
  bool is_registered = false;
  std::uint64_t n_registered = 0;  // times; above 1: a lease was lost
  std::uint64_t n_failures = 0;
  std::string last_failure{};
};

// Keeps a member in etcd from construction to destruction, from a thread of its own.
class Registration {
 public:
  // Takes it out again, unless etcd does not answer within 2 s: then its lease ends by itself.
  virtual ~Registration() = default;
  virtual RegistrationStatus status() const = 0;  // any thread
};

// Under a lease of `ttl`, which is renewed every third of it; one that is lost is followed by a new one. A key of the
// same name is replaced: names have to differ. `on_state`: well each time that it has entered, and why it cannot, once
// until it can; from a thread of its own. Errors: kInvalidArgument for a member that is none, or with a slash in its
// name. REQUIRES: an endpoint, `ttl` of a second or more.
Result<std::unique_ptr<Registration>> register_in_etcd(EtcdOptions options,
                                                       const Member& member,
                                                       std::chrono::seconds ttl,
                                                       OnSource on_state = {});

}  // namespace coxswain::membership
