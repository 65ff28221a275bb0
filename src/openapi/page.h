#pragma once
// GET /docs: a page that reads the server's own OpenAPI document, lists its operations and schemas, and sends requests.
// It loads nothing else. All that it shows, answers of a model too, goes in as text, never as HTML.
//
// Thread rule: constants.

#include <string_view>

namespace coxswain::openapi {

extern const std::string_view kPage;
// Content-Security-Policy for it: nothing from elsewhere, requests to this server alone, no frames.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
    "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace coxswain::openapi
