#pragma once
// Turns: what the documents of other APIs than OpenAI's chats are read into on their way to messages of a chat.
// Internal to the documents.
//
// Thread rule: values; pure functions.

#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "json/json.h"

namespace coxswain::api {

// A message of the chat. Blocks of one message may be spread over several where a result of a function is among them.
struct Turn {
  std::string role;
  std::string text = {};
  std::string thoughts = {};
  json::Array calls = {};
  std::string call_id = {};  // of a result
};

// Begins a turn, or goes on with the last one of this role, behind a blank line.
void open_turn(const std::string& role, std::vector<Turn>& turns);

json::Value message_of(std::string role, std::string text);
// The turns as messages of a chat behind `chat`; results get the names of the functions that were called.
json::Value chat_of(std::vector<Turn> turns, json::Array chat);

std::string quoted(std::string_view path);
Status bad_type(const std::string& path, std::string_view must, const json::Value& given);

}  // namespace coxswain::api
