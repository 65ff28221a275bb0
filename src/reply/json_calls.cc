#include "reply/json_calls.h"

#include <utility>

#include "reply/characters.h"
#include "reply/json_scanner.h"

namespace coxswain::reply {

namespace {

// What is known of a call while its object is read.
struct CallObject {
  Names names = Names::kAny;
  std::string name;
  std::string id;
  std::string arguments;  // that came before the name
  bool begun = false;
};

bool one_of(std::string_view key, std::string_view a, std::string_view b) {
  return key == a || key == b;
}

bool name_counts(const Answer& answer, const CallObject& call) {
  return !call.name.empty() &&
         (call.names == Names::kAny || answer.tool_named(call.name) != nullptr);
}

// The text of one JSON value; false if it is none.
Reading<bool> read_value(Answer& answer, std::string& text) {
  JsonScanner scanner;
  for (;;) {
    const int c = co_await answer.source.next();
    if (c == Source::kEnd) co_return false;
    const bool in_string = scanner.in_string();
    const JsonScanner::Step step = scanner.feed(static_cast<char>(c));
    if (step == JsonScanner::Step::kEndBefore) co_return true;
    if (step == JsonScanner::Step::kBad) co_return false;
    append_json_byte(text, answer.source.take(), in_string);
    if (step == JsonScanner::Step::kEnd) co_return true;
  }
}

// A string's characters; the text as it is if it is no string.
std::string unquoted(const std::string& text) {
  const Result<json::Value> value = json::parse(text);
  return value.ok() && value.value().is_string() ? value.value().as_string() : text;
}

// The arguments that a value other than an object stands for; empty if none.
std::string object_within(const std::string& text) {
  if (text == "null") return "{}";
  if (!text.starts_with('"')) return {};
  std::string inner = unquoted(text);
  if (inner.empty()) return "{}";
  const Result<json::Value> value = json::parse(inner);
  if (!value.ok() || !value.value().is_object()) return {};
  return inner;
}

void begin(Answer& answer, CallObject& call) {
  answer.begin_call(call.name, call.id);
  answer.sink.arguments(call.arguments);
  call.begun = true;
}

Reading<bool> read_arguments(Answer& answer, CallObject& call) {
  const int c = co_await answer.source.next();
  const bool named = name_counts(answer, call);
  if (c == '{' && named) {
    begin(answer, call);
    const Outcome outcome = co_await stream_arguments(answer);
    co_return outcome == Outcome::kRead;
  }
  const bool read = co_await read_value(answer, call.arguments);
  if (!read) co_return false;
  if (!call.arguments.starts_with('{')) call.arguments = object_within(call.arguments);
  if (call.arguments.empty()) co_return false;
  if (named) begin(answer, call);
  co_return true;
}

Reading<bool> read_member(Answer& answer, CallObject& call) {
  std::string key;
  bool read = co_await read_value(answer, key);
  if (!read || !key.starts_with('"')) co_return false;
  key = unquoted(key);
  co_await skip_space(answer);
  read = co_await literal(answer, ":");
  if (!read) co_return false;
  co_await skip_space(answer);
  if (!call.begun && call.arguments.empty() && one_of(key, "arguments", "parameters")) {
    read = co_await read_arguments(answer, call);
    co_return read;
  }
  std::string value;
  read = co_await read_value(answer, value);
  if (!read) co_return false;
  if (call.begun) co_return true;
  if (one_of(key, "id", "tool_call_id")) call.id = unquoted(value);
  if (one_of(key, "name", "tool_name")) {
    if (!call.name.empty() || !value.starts_with('"')) co_return false;
    call.name = unquoted(value);
    if (!name_counts(answer, call)) co_return false;
    if (!call.arguments.empty()) begin(answer, call);
  }
  co_return true;
}

// Whether another object may follow, behind a ';' or at once.
Reading<bool> at_object(Answer& answer) {
  co_await skip_space(answer);
  for (std::size_t distance = 0;; ++distance) {
    const int c = co_await answer.source.ahead(distance);
    if (c == '{') {
      answer.source.skip(distance);
      co_return true;
    }
    const bool separator = distance == 0 ? c == ';' : c == ' ' && distance == 1;
    if (!separator) co_return false;
  }
}

Reading<Outcome> read_list(Answer& answer, Names names) {
  for (;;) {
    co_await skip_space(answer);
    const int c = co_await answer.source.next();
    if (c != '{') co_return Outcome::kNot;
    const Outcome outcome = co_await read_call_object(answer, names);
    if (outcome != Outcome::kRead) co_return outcome;
    co_await skip_space(answer);
    const int behind = co_await answer.source.next();
    if (behind != ',' && behind != ']') co_return Outcome::kBroken;
    answer.source.take();
    if (behind == ']') co_return Outcome::kRead;
    co_await skip_space(answer);
    answer.source.hold();
  }
}

}  // namespace

Reading<Outcome> read_call_object(Answer& answer, Names names) {
  CallObject call;
  call.names = names;
  answer.source.take();
  for (;;) {
    co_await skip_space(answer);
    const bool read = co_await read_member(answer, call);
    if (!read) break;
    co_await skip_space(answer);
    const int c = co_await answer.source.next();
    if (c != ',' && c != '}') break;
    answer.source.take();
    if (c == ',') continue;
    if (call.begun) co_return Outcome::kRead;
    if (names == Names::kDeclared || call.name.empty()) co_return Outcome::kNot;
    call.arguments = "{}";
    begin(answer, call);
    co_return Outcome::kRead;
  }
  co_return call.begun ? Outcome::kBroken : Outcome::kNot;
}

Reading<Outcome> read_call_objects(Answer& answer, Names names) {
  co_await skip_space(answer);
  const int c = co_await answer.source.next();
  if (c == '[') {
    answer.source.take();
    const Outcome outcome = co_await read_list(answer, names);
    co_return outcome;
  }
  if (c != '{') co_return Outcome::kNot;
  for (;;) {
    const Outcome outcome = co_await read_call_object(answer, names);
    if (outcome != Outcome::kRead) co_return outcome;
    answer.source.hold();
    const bool more = co_await at_object(answer);
    if (!more) break;
    answer.source.hold();
  }
  answer.source.drop_held();
  co_return Outcome::kRead;
}

Reading<Outcome> read_framed_call_objects(Answer& answer, std::string_view close) {
  const Outcome outcome = co_await read_call_objects(answer, Names::kAny);
  if (outcome != Outcome::kRead) co_return outcome;
  co_await skip_space(answer);
  if (!close.empty()) co_await literal(answer, close);
  co_return Outcome::kRead;
}

Reading<Outcome> read_bare_calls(Answer& answer) {
  const bool fenced = co_await literal(answer, "```");
  if (fenced) co_await literal(answer, "json");
  const Outcome outcome = co_await read_call_objects(answer, Names::kDeclared);
  if (outcome != Outcome::kRead || !fenced) co_return outcome;
  co_await skip_space(answer);
  co_await literal(answer, "```");
  co_return Outcome::kRead;
}

}  // namespace coxswain::reply
