#include "membership/open.h"

#include <fstream>
#include <utility>

#include "membership/kubernetes.h"

namespace coxswain::membership {
namespace {

Status missing(const char* option, const char* why) {
  return invalid_argument("`" + std::string(option) + "` must be set " + why, option);
}

Result<EtcdOptions> etcd_options(const options::OptionValues& values) {
  Result<std::vector<std::string>> endpoints =
      parse_endpoints(values.get<"etcd-endpoints">().value_or(""));
  if (!endpoints.ok()) return endpoints.status().with_context("`etcd-endpoints`");
  EtcdOptions out{.endpoints = std::move(endpoints).value(),
                  .prefix = values.get<"etcd-prefix">(),
                  .tls = {.ca = values.get<"etcd-ca-path">().value_or(""),
                          .certificate = values.get<"etcd-cert-path">().value_or(""),
                          .key = values.get<"etcd-key-path">().value_or("")},
                  .user = values.get<"etcd-user">().value_or(""),
                  .password = values.get<"COXSWAIN_ETCD_PASSWORD">().value_or("")};
  while (out.prefix.ends_with('/')) out.prefix.pop_back();
  if (out.tls.certificate.empty() != out.tls.key.empty())
    return missing("etcd-cert-path", "together with `etcd-key-path`");
  if (out.user.empty() != out.password.empty())
    return missing("etcd-user", "together with the variable COXSWAIN_ETCD_PASSWORD");
  return out;
}

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

// Empty if there is none.
std::string api_of_pod(const options::OptionValues& values) {
  const std::string host = values.get<"KUBERNETES_SERVICE_HOST">().value_or("");
  if (host.empty()) return {};
  const bool is_v6 = host.find(':') != std::string::npos;
  return "https://" + (is_v6 ? "[" + host + "]" : host) + ":" +
         std::to_string(values.get<"KUBERNETES_SERVICE_PORT">());
}

Result<KubernetesOptions> kubernetes_options(const options::OptionValues& values,
                                             const std::string& account) {
  Result<ServiceRoles> services = parse_services(values.get<"kubernetes-services">().value_or(""));
  if (!services.ok()) return services.status().with_context("`kubernetes-services`");
  KubernetesOptions out{.name_space = values.get<"kubernetes-namespace">().value_or(""),
                        .services = std::move(services).value(),
                        .port = values.get<"kubernetes-port">().value_or("")};
  const std::string given = values.get<"kubernetes-api">().value_or("");
  const bool is_pod = given.empty();
  if (is_pod) {
    out.api = api_of_pod(values);
    if (out.api.empty()) return missing("kubernetes-api", "where the router is no pod");
  } else {
    const auto api = parse_endpoints(given);
    if (!api.ok()) return api.status().with_context("`kubernetes-api`");
    if (api.value().size() > 1)
      return invalid_argument("`kubernetes-api` must be one URL", "kubernetes-api");
    out.api = api.value().front();
  }
  const auto of_pod = [&](const char* file) {
    return is_pod ? account + "/" + file : std::string();
  };
  out.token_path = values.get<"kubernetes-token-path">().value_or(of_pod("token"));
  out.tls.ca = values.get<"kubernetes-ca-path">().value_or(of_pod("ca.crt"));
  if (out.name_space.empty() && is_pod) out.name_space = first_line(of_pod("namespace"));
  if (out.name_space.empty()) return missing("kubernetes-namespace", "where the router is no pod");
  return out;
}

}  // namespace

Result<std::unique_ptr<Membership>> open_membership(const options::OptionValues& values,
                                                    Members fixed,
                                                    const std::string& account) {
  const std::string& source = values.get<"membership">();
  if (source == "etcd") {
    Result<EtcdOptions> etcd = etcd_options(values);
    if (!etcd.ok()) return etcd.status();
    return make_etcd_membership(std::move(etcd).value());
  }
  if (source == "kubernetes") {
    Result<KubernetesOptions> kubernetes = kubernetes_options(values, account);
    if (!kubernetes.ok()) return kubernetes.status();
    return make_kubernetes_membership(std::move(kubernetes).value());
  }
  return make_fixed_membership(std::move(fixed));
}

Result<std::unique_ptr<Registration>> open_registration(const options::OptionValues& values,
                                                        const Member& self,
                                                        OnSource on_state) {
  if (!values.get<"etcd-endpoints">()) return std::unique_ptr<Registration>();
  Result<EtcdOptions> etcd = etcd_options(values);
  if (!etcd.ok()) return etcd.status();
  return register_in_etcd(
      std::move(etcd).value(),
      self,
      std::chrono::duration_cast<std::chrono::seconds>(values.get<"etcd-lease-ttl-s">()),
      std::move(on_state));
}

}  // namespace coxswain::membership
