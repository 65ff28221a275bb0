#include "router/error_response.h"

namespace coxswain::router {

http::Response error_response(api::ApiStyle style, const Status& status) {
  const api::ErrorRow& row = api::error_row(api::client_kind(status));
  http::Response out;
  out.status = row.http_status;
  out.body = api::error_body(style, status);
  if (row.retry_after) out.headers.emplace_back("retry-after", "1");
  if (row.http_status == 401) out.headers.emplace_back("www-authenticate", "Bearer");
  return out;
}

}  // namespace coxswain::router
