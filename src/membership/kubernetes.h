#pragma once
// Kubernetes as a source of members: the ready endpoints of Services, from EndpointSlices of discovery.k8s.io/v1.
//
// A member is named as its pod, and its incarnation is the pod's uid; an endpoint that is no pod has its address for
// both. The role is that of the Service: a fleet with roles has a Service for each. An endpoint that is not ready, or
// whose pod is about to end, is no member.
//
// Thread rule: as Membership.

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "membership/http_client.h"
#include "membership/membership.h"

namespace coxswain::membership {

// By the name of the Service.
using ServiceRoles = std::map<std::string, Role, std::less<>>;

struct KubernetesOptions {
  std::string api{};         // "https://host:port"
  std::string name_space{};  // of the Services
  ServiceRoles services{};
  std::string port{};        // name of the Service's port; empty: its only one
  std::string token_path{};  // read for each request, because tokens are renewed; empty: none
  TlsFiles tls{};
};

// "NAME[=ROLE]" with commas between them; mixed without a role. Errors: kInvalidArgument that quotes what is wrong.
Result<ServiceRoles> parse_services(std::string_view text);

// start(): kNotFound if the token cannot be read.
std::unique_ptr<Membership> make_kubernetes_membership(KubernetesOptions options);

}  // namespace coxswain::membership
