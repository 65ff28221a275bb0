#pragma once
// Ticket: one request between its I/O thread and its Call. Internal to the Api.
//
// Thread rule: owned by one thread at a time, which hands it on whole.

#include <chrono>
#include <memory>
#include <optional>

#include "http/server.h"
#include "router/api.h"
#include "router/permits.h"
#include "router/request_trace.h"
#include "router/tally.h"

namespace coxswain::router {

struct Api::Ticket {
  std::shared_ptr<const http::Request> request;
  std::shared_ptr<http::Responder> responder;
  api::ApiStyle style = api::ApiStyle::kNative;
  HeldKeyPtr key;                                   // null: none is asked for
  std::optional<std::chrono::seconds> retry_after;  // of a limit of the key
  Permits permits;
  RequestTrace trace;                 // generation routes only
  std::optional<RequestTally> tally;  // generation routes only
};

}  // namespace coxswain::router
