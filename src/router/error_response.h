#pragma once
// A Status as an HTTP answer. Thread rule: pure function.

#include <coxswain/status.h>

#include "api/errors.h"
#include "http/server.h"

namespace coxswain::router {

// With Retry-After where waiting can help, and WWW-Authenticate for a missing key.
http::Response error_response(api::ApiStyle style, const Status& status);

}  // namespace coxswain::router
