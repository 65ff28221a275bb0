#include "router/error_response.h"

namespace coxswain::router {

http::Response error_response(api::ApiStyle style, const Status& status) {
  http::Response out;
  out.status = api::http_status(style, status);
  out.body = api::error_body(style, status);
  if (api::error_row(api::client_kind(status)).retry_after)
    out.headers.emplace_back("retry-after", "1");
  if (out.status == 401) out.headers.emplace_back("www-authenticate", "Bearer");
  return out;
}

}  // namespace coxswain::router
