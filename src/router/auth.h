#pragma once
// Who may ask: with keys, every route needs one but those that tell nothing private.
//
// Thread rule: pure functions.

#include <functional>
#include <memory>
#include <string_view>

#include "api/errors.h"
#include "http/server.h"
#include "router/key_ring.h"

namespace coxswain::router {

struct AuthOptions {
  std::shared_ptr<KeyRing> keys;              // null: everything is open
  bool protect_all = false;                   // only the health routes stay open
  std::string health_route = {};              // one more, as Vertex AI chooses it
  api::ApiStyle v1 = api::ApiStyle::kOpenAi;  // dialect of refusals below /v1
};

// Whether a route is open although there are keys.
bool is_open_route(std::string_view method, std::string_view path, bool protect_all);

// Why a request without a key is refused.
Status unauthorized();

// For Server::set_gate(); null if there are no keys.
std::function<std::unique_ptr<http::Response>(const http::Request&)> make_gate(
    const AuthOptions& options);

}  // namespace coxswain::router
