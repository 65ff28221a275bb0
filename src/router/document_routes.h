#pragma once
// GET /api-doc/openapi.json and GET /docs: what the server answers to (src/openapi).
//
// Thread rule: pure function.

#include "http/server.h"
#include "openapi/document.h"

namespace coxswain::router {

void add_document_routes(http::Server& server, const openapi::DocumentOptions& options);

}  // namespace coxswain::router
