#pragma once
// What stands below /v1/responses/ID: the items that a kept response was an answer to, in OpenAI's form, a page at a
// time; and the response that was cancelled.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "json/json.h"

namespace coxswain::api {

struct InputItemsPage {
  std::size_t limit = 20;
  bool newest_first = true;
  std::string after = {};  // id of the item before the page; empty: it begins at the beginning
};

// Of the query: names and values. Errors: kInvalidArgument with the field, for limits outside of 1 to 100, other orders
// and other names.
Result<InputItemsPage> read_input_items_page(
    const std::vector<std::pair<std::string, std::string>>& query);

// `items`: as they were given, or made by earlier answers. Each gets the members that OpenAI's have; one without an id
// of its own gets one made of the response's and its place. Errors: kInvalidArgument: `after` names none of them.
Result<std::string> input_items_document(const json::Array& items,
                                         std::string_view response_id,
                                         const InputItemsPage& page);

// A response that was cancelled while it ran: what POST /v1/responses/ID/cancel answers.
std::string cancelled_response(std::string_view id, std::int64_t now, std::string_view model);

}  // namespace coxswain::api
