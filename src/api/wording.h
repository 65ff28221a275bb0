#pragma once
// Wording: how a check of validate() words its refusal for the route that asked.
//
// Clients of native routes match on TGI's texts, so those stand as they are, in TGI's dialect below /v1 too. In
// OpenAI's a text always names the field as the route calls it, the limit and the value that was given.
//
// Thread rule: values; pure.

#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "api/documents.h"
#include "api/errors.h"
#include "request/range.h"

namespace coxswain::api {

class Wording {
 public:
  // `prompt_field`: what the route calls inputs. Borrows `parameters`.
  Wording(ApiStyle style, std::string_view prompt_field, const Parameters& parameters)
      : style_(style), prompt_field_(prompt_field), parameters_(parameters) {}

  // What the route calls a field of the native document.
  std::string_view name(std::string_view field) const;

  // A refusal of `field`, a native name. In TGI's words: `native` alone. In OpenAI's:
  // "`name` must be {limit}. Given: {given}".
  Status refuse(std::string_view field,
                std::string_view native,
                std::string_view limit,
                std::string_view given) const;
  // A refusal of a value outside of `range`. TGI's words do not repeat what was given.
  Status refuse(std::string_view field, const request::Range& range, float given) const;
  // A refusal with the same words on every route.
  Status refuse(std::string_view field, std::string text) const;

  // In TGI's words.
  bool native() const { return style_ == ApiStyle::kNative || style_ == ApiStyle::kTgi; }

 private:
  ApiStyle style_;
  std::string_view prompt_field_;
  const Parameters& parameters_;
};

}  // namespace coxswain::api
