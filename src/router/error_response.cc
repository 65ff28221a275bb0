#include "router/error_response.h"

#include <string>
#include <utility>

namespace coxswain::router {

http::Response error_response(api::ApiStyle style,
                              const Status& status,
                              std::string_view request_id,
                              std::chrono::seconds retry_after) {
  http::Response out;
  out.status = api::http_status(style, status);
  out.body = api::error_body(style, status, request_id);
  if (api::error_row(api::client_kind(status)).retry_after)
    out.headers.emplace_back("retry-after", std::to_string(retry_after.count()));
  if (out.status == 401) out.headers.emplace_back("www-authenticate", "Bearer");
  if (style == api::ApiStyle::kAnthropic && !request_id.empty())
    out.headers.emplace_back("request-id", request_id);
  return out;
}

http::Response method_not_allowed(api::ApiStyle style,
                                  std::string_view allowed,
                                  std::string_view hint) {
  std::string text = "this path takes ";
  text.append(allowed).append(hint);
  const Status why(Code::kInvalidArgument, ErrorKind::kMethodNotAllowed, std::move(text));
  http::Response out = error_response(style, why);
  out.headers.emplace_back("allow", allowed);
  return out;
}

}  // namespace coxswain::router
