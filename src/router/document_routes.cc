#include "router/document_routes.h"

#include <memory>
#include <string>

#include "json/json.h"
#include "openapi/page.h"

namespace coxswain::router {

void add_document_routes(http::Server& server, const openapi::DocumentOptions& options) {
  const auto document =
      std::make_shared<const std::string>(json::write(openapi::make_document(options)));
  server.add_route("GET", "/api-doc/openapi.json", [document](auto, auto responder) {
    responder->send({.body = *document});
  });
  server.add_route("GET", "/docs", [](auto, auto responder) {
    responder->send({.headers = {{"content-security-policy", std::string(openapi::kPagePolicy)},
                                 {"x-content-type-options", "nosniff"}},
                     .content_type = "text/html; charset=utf-8",
                     .body = std::string(openapi::kPage)});
  });
}

}  // namespace coxswain::router
