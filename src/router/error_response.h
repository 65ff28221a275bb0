#pragma once
// A Status as an HTTP answer. Thread rule: pure function.

#include <string_view>

#include <coxswain/status.h>

#include "api/errors.h"
#include "http/server.h"

namespace coxswain::router {

// With Retry-After where waiting can help, and WWW-Authenticate for a missing key.
// Anthropic's clients find the id of the request in the header request-id.
http::Response error_response(api::ApiStyle style,
                              const Status& status,
                              std::string_view request_id = {});

}  // namespace coxswain::router
