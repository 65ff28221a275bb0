#pragma once
// Who may ask: with a key, every route needs `Authorization: Bearer KEY` but those that tell nothing private.
//
// Thread rule: pure functions.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/errors.h"
#include "http/server.h"

namespace coxswain::router {

struct AuthOptions {
  std::string api_key;                        // empty: everything is open
  bool protect_all = false;                   // only the health routes stay open
  api::ApiStyle v1 = api::ApiStyle::kOpenAi;  // dialect of refusals below /v1
};

// Whether the value of an Authorization header carries `key`. The scheme is compared without case,
// the key exactly and in a time that depends on the length of the header alone.
bool is_authorized(std::string_view authorization, std::string_view key);

// Whether a route is open although there is a key.
bool is_open_route(std::string_view method, std::string_view path, bool protect_all);

// For Server::set_gate(); null if there is no key.
std::function<std::unique_ptr<http::Response>(const http::Request&)> make_gate(
    const AuthOptions& options);

}  // namespace coxswain::router
