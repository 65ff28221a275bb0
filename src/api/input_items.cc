#include "api/input_items.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "api/errors.h"

namespace coxswain::api {
namespace {

constexpr std::size_t kLimitMax = 100;

std::string text_of(const json::Value& item, std::string_view name) {
  const json::Value* member = item.find(name);
  return member != nullptr && member->is_string() ? member->as_string() : std::string();
}

std::string_view prefix_of(std::string_view type) {
  if (type == "function_call") return "fc_";
  if (type == "function_call_output") return "fco_";
  return type == "reasoning" ? "rs_" : "msg_";
}

// A text stands for one part.
json::Value content_of(const json::Value& content, bool is_answer) {
  if (!content.is_string()) return content;
  json::Object part;
  part.append_new("type", is_answer ? "output_text" : "input_text");
  part.append_new("text", content);
  if (is_answer) part.append_new("annotations", json::Array());
  return json::Value(json::Array{json::Value(std::move(part))});
}

json::Value item_of(const json::Value& given, const std::string& id) {
  const std::string given_type = text_of(given, "type");
  const std::string type = given_type.empty() ? "message" : given_type;
  json::Object out;
  out.append_new("id", id);
  out.append_new("type", type);
  for (const auto& [name, value] : given.as_object()) {
    if (name == "id" || name == "type") continue;
    const bool is_content = type == "message" && name == "content";
    out.append_new(name,
                   is_content ? content_of(value, text_of(given, "role") == "assistant") : value);
  }
  if (type == "reasoning") {
    if (given.find("summary") == nullptr) out.append_new("summary", json::Array());
  } else if (given.find("status") == nullptr) {
    out.append_new("status", "completed");
  }
  return json::Value(std::move(out));
}

}  // namespace

Result<InputItemsPage> read_input_items_page(
    const std::vector<std::pair<std::string, std::string>>& query) {
  InputItemsPage out;
  for (const auto& [name, value] : query) {
    if (name == "limit") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), out.limit);
      const bool whole = error == std::errc() && end == value.data() + value.size();
      if (!whole || out.limit < 1 || out.limit > kLimitMax) {
        return invalid_argument("`limit` must be a number of 1 to " + std::to_string(kLimitMax) +
                                    ". Given: " + echo(value),
                                "limit");
      }
    } else if (name == "order") {
      if (value != "asc" && value != "desc")
        return invalid_argument("`order` must be asc or desc. Given: " + echo(value), "order");
      out.newest_first = value == "desc";
    } else if (name == "after") {
      out.after = value;
    } else if (name != "include" && name != "include[]") {  // all there is, is told
      return invalid_argument(
          "`" + echo(name) + "` is no parameter here: limit, order, after and include are", name);
    }
  }
  return out;
}

Result<std::string> input_items_document(const json::Array& items,
                                         std::string_view response_id,
                                         const InputItemsPage& page) {
  std::vector<std::pair<std::string, json::Value>> all;
  std::unordered_set<std::string> ids;
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::string id = text_of(items[i], "id");
    if (id.empty() || !ids.insert(id).second) {
      id = prefix_of(text_of(items[i], "type"));
      id += response_id.substr(response_id.find('_') + 1);
      id += "_in_" + std::to_string(i);
      ids.insert(id);
    }
    all.emplace_back(id, item_of(items[i], id));
  }
  if (page.newest_first) std::ranges::reverse(all);
  auto begin = all.begin();
  if (!page.after.empty()) {
    begin = std::ranges::find_if(all, [&](const auto& one) { return one.first == page.after; });
    if (begin == all.end())
      return invalid_argument("`after` names no item: " + echo(page.after), "after");
    ++begin;
  }
  const auto n = std::min<std::size_t>(page.limit, static_cast<std::size_t>(all.end() - begin));
  const auto end = begin + static_cast<std::ptrdiff_t>(n);
  json::Array data;
  for (auto one = begin; one != end; ++one) data.push_back(one->second);
  json::Object out;
  out.append_new("object", "list");
  out.append_new("data", json::Value(std::move(data)));
  out.append_new("first_id", n == 0 ? json::Value() : json::Value(begin->first));
  out.append_new("last_id", n == 0 ? json::Value() : json::Value((end - 1)->first));
  out.append_new("has_more", end != all.end());
  return json::write(json::Value(std::move(out)));
}

std::string cancelled_response(std::string_view id, std::int64_t now, std::string_view model) {
  json::Object out;
  out.append_new("id", id);
  out.append_new("object", "response");
  out.append_new("created_at", json::Value::integer(now));
  out.append_new("status", "cancelled");
  for (const char* name : {"error", "incomplete_details"}) out.append_new(name, nullptr);
  out.append_new("model", model);
  out.append_new("output", json::Array());
  out.append_new("parallel_tool_calls", true);
  out.append_new("tool_choice", "auto");
  out.append_new("tools", json::Array());
  return json::write(json::Value(std::move(out)));
}

}  // namespace coxswain::api
