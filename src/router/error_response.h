#pragma once
// A Status as an HTTP answer. Thread rule: pure functions.

#include <chrono>
#include <string_view>

#include <coxswain/status.h>

#include "api/errors.h"
#include "http/server.h"

namespace coxswain::router {

// With Retry-After where waiting can help (`retry_after`, in whole seconds), and WWW-Authenticate for a missing key.
// Anthropic's clients find the id of the request in the header request-id.
http::Response error_response(api::ApiStyle style,
                              const Status& status,
                              std::string_view request_id = {},
                              std::chrono::seconds retry_after = std::chrono::seconds(1));

// 405 of a path below one whose routes are told apart by what it ends with. `allowed`: its methods, as in "GET, HEAD".
// `hint`: what stands behind them in the message.
http::Response method_not_allowed(api::ApiStyle style,
                                  std::string_view allowed,
                                  std::string_view hint = {});

}  // namespace coxswain::router
