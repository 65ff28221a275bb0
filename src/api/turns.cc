#include "api/turns.h"

#include <string_view>
#include <unordered_map>

#include "api/fields.h"
#include "base/keyed_hash.h"

namespace coxswain::api {
namespace {

constexpr std::string_view kBetweenTurns = "\n\n";  // of one role

}  // namespace

std::string quoted(std::string_view path) {
  return "`" + std::string(path) + "`";
}

Status bad_type(const std::string& path, std::string_view must, const json::Value& given) {
  std::string text = quoted(path) + " must be ";
  text.append(must).append(". Given: ").append(type_name(given));
  return invalid_argument(std::move(text), path);
}

void open_turn(const std::string& role, std::vector<Turn>& turns) {
  if (!turns.empty() && turns.back().role == role && turns.back().calls.empty()) {
    turns.back().text += kBetweenTurns;
  } else {
    turns.push_back({.role = role});
  }
}

json::Value message_of(std::string role, std::string text) {
  json::Object out;
  out.append_new("role", std::move(role));
  out.append_new("content", std::move(text));
  return json::Value(std::move(out));
}

json::Value chat_of(std::vector<Turn> turns, json::Array chat) {
  std::unordered_map<std::string, json::Value, base::KeyedHash> names;  // by id of the call
  chat.reserve(chat.size() + turns.size());
  for (Turn& turn : turns) {
    json::Object out;
    out.append_new("role", turn.role);
    const bool calls_alone = turn.text.empty() && !turn.calls.empty();
    out.append_new("content", calls_alone ? json::Value() : json::Value(std::move(turn.text)));
    if (!turn.thoughts.empty()) out.append_new("reasoning_content", std::move(turn.thoughts));
    for (const json::Value& call : turn.calls)
      names[call.find("id")->as_string()] = *call.find("function")->find("name");
    if (!turn.calls.empty()) out.append_new("tool_calls", std::move(turn.calls));
    if (turn.role == "tool") {
      if (const auto name = names.find(turn.call_id); name != names.end())
        out.append_new("name", name->second);
      out.append_new("tool_call_id", std::move(turn.call_id));
    }
    chat.emplace_back(std::move(out));
  }
  return json::Value(std::move(chat));
}

}  // namespace coxswain::api
