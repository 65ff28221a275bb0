#pragma once
// The description as a document of OpenAPI 3.1.
//
// Thread rule: pure functions.

#include <string>
#include <string_view>

#include "api/errors.h"
#include "json/json.h"
#include "openapi/description.h"

namespace coxswain::openapi {

struct DocumentOptions {
  std::string_view version;
  api::ApiStyle v1 = api::ApiStyle::kOpenAi;  // dialect of the routes below /v1
  bool has_keys = false;
  bool protect_all = false;
};

json::Value make_document(const Description& description, const DocumentOptions& options);
json::Value make_document(const DocumentOptions& options);

// With line breaks and blanks.
std::string pretty(const json::Value& value);

}  // namespace coxswain::openapi
