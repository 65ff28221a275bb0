#pragma once
// The rules of a request's Retention: bounds, and ranges that do not overlap.
//
// Thread rule: pure functions.

#include <string_view>

#include <coxswain/retention.h>
#include <coxswain/status.h>

namespace coxswain::request {

// As errors name it.
inline constexpr std::string_view kRetentionField = "retention";

// Errors: kInvalidArgument with the field, the bound and the value.
Status check_retention(const Retention& retention);

}  // namespace coxswain::request
