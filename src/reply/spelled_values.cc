#include "reply/spelled_values.h"

#include "reply/characters.h"
#include "reply/json_calls.h"
#include "reply/json_scanner.h"
#include "reply/typed_values.h"

namespace coxswain::reply {

namespace {

constexpr std::size_t kDepthMax = JsonScanner::kDepthMax;

// Bytes up to one of `ends` or the end of the answer; spaces around are dropped.
Reading<std::string> bare_text(Answer& answer, std::string_view ends) {
  std::string text;
  for (;;) {
    const int c = co_await answer.source.next();
    if (c == Source::kEnd || ends.find(static_cast<char>(c)) != std::string_view::npos) break;
    text += answer.source.take();
  }
  while (!text.empty() && is_space(text.back())) text.pop_back();
  co_return text;
}

bool is_scalar(std::string_view text) {
  const Result<json::Value> value = json::parse(text);
  return value.ok() && !value.value().is_string();
}

void append_utf8(std::string& text, unsigned code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    text += static_cast<char>(0xE0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code & 0x3F));
  }
}

unsigned hex_value(char c) {
  return static_cast<unsigned>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
}

// Behind a backslash.
Reading<bool> python_escape(Answer& answer, std::string& text) {
  constexpr std::string_view kNames = "ntrbf\\'\"";
  constexpr std::string_view kMeanings = "\n\t\r\b\f\\'\"";
  const int c = co_await answer.source.next();
  if (c == Source::kEnd) co_return false;
  const char name = answer.source.take();
  const std::size_t known = kNames.find(name);
  if (known != std::string_view::npos) {
    text += kMeanings[known];
  } else if (name == 'x' || name == 'u') {
    unsigned code = 0;
    for (int left = name == 'x' ? 2 : 4; left > 0; --left) {
      const int digit = co_await answer.source.next();
      if (digit == Source::kEnd || !is_hex_digit(static_cast<char>(digit))) co_return false;
      code = code << 4 | hex_value(answer.source.take());
    }
    append_utf8(text, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
  } else if (name != '\n') {  // Python keeps what it does not know
    text += '\\';
    text += name;
  }
  co_return true;
}

Reading<bool> python_string(Answer& answer, std::string& text) {
  const char quote = answer.source.take();
  for (;;) {
    const int c = co_await answer.source.next();
    if (c == Source::kEnd) co_return false;
    const char byte = answer.source.take();
    if (byte == quote) co_return true;
    if (byte != '\\') {
      text += byte;
      continue;
    }
    const bool read = co_await python_escape(answer, text);
    if (!read) co_return false;
  }
}

Reading<bool> python_value(Answer& answer, std::string& json, std::size_t depth);

// Elements behind an opening bracket.
Reading<bool> python_elements(
    Answer& answer, std::string& json, char close, bool pairs, std::size_t depth) {
  json += pairs ? '{' : '[';
  for (bool first = true;; first = false) {
    co_await skip_space(answer);
    int c = co_await answer.source.next();
    if (c != close) {
      if (!first) json += ", ";
      if (pairs && c != '\'' && c != '"') co_return false;
      bool read = co_await python_value(answer, json, depth);
      if (read && pairs) {
        co_await skip_space(answer);
        read = co_await literal(answer, ":");
        json += ": ";
        read = read && co_await python_value(answer, json, depth);
      }
      if (!read) co_return false;
      co_await skip_space(answer);
      c = co_await answer.source.next();
    }
    if (c != close && c != ',') co_return false;
    answer.source.take();
    if (c == ',') continue;
    json += pairs ? '}' : ']';
    co_return true;
  }
}

Reading<bool> python_value(Answer& answer, std::string& json, std::size_t depth) {
  co_await skip_space(answer);
  const int c = co_await answer.source.next();
  if (c == Source::kEnd || depth == kDepthMax) co_return false;
  if (c == '\'' || c == '"') {
    std::string text;
    const bool read = co_await python_string(answer, text);
    json += quoted(text);
    co_return read;
  }
  if (c == '[' || c == '(' || c == '{') {
    answer.source.take();
    const char close = c == '[' ? ']' : c == '(' ? ')' : '}';
    const bool read = co_await python_elements(answer, json, close, c == '{', depth + 1);
    co_return read;
  }
  const std::string text = co_await bare_text(answer, ",)]}:=([{'\"\n");
  if (text == "True" || text == "False" || text == "None") {
    json += text == "True" ? "true" : text == "False" ? "false" : "null";
    co_return true;
  }
  json += text;
  co_return is_scalar(text);
}

// NAME(key=value, ...)
Reading<Outcome> python_call(Answer& answer, Names names) {
  constexpr std::string_view kCall = ".call";
  std::string name = co_await word(answer);
  if (name.ends_with(kCall)) name.resize(name.size() - kCall.size());
  bool found = co_await literal(answer, "(");
  found = found && !name.empty();
  if (!found || (names == Names::kDeclared && answer.tool_named(name) == nullptr)) {
    co_return Outcome::kNot;
  }
  ObjectText arguments;
  for (;;) {
    co_await skip_space(answer);
    found = co_await literal(answer, ")");
    if (found) break;
    const std::string key = co_await word(answer);
    co_await skip_space(answer);
    found = co_await literal(answer, "=");
    std::string value;
    found = found && !key.empty() && co_await python_value(answer, value, 0);
    if (!found) co_return Outcome::kNot;
    arguments.add(key, value);
    co_await skip_space(answer);
    const int c = co_await answer.source.next();
    if (c != ',' && c != ')') co_return Outcome::kNot;
    if (c == ',') answer.source.take();
  }
  answer.begin_call(name, "");
  answer.sink.arguments(std::move(arguments).finish());
  co_return Outcome::kRead;
}

// [call, ...]
Reading<Outcome> python_calls(Answer& answer, Names names) {
  co_await skip_space(answer);
  bool found = co_await literal(answer, "[");
  if (!found) co_return Outcome::kNot;
  for (;;) {
    co_await skip_space(answer);
    const Outcome outcome = co_await python_call(answer, names);
    if (outcome != Outcome::kRead) co_return outcome;
    answer.source.hold();
    co_await skip_space(answer);
    found = co_await literal(answer, "]");
    if (found) co_return Outcome::kRead;
    found = co_await literal(answer, ",");
    if (!found) co_return Outcome::kNot;
  }
}

Reading<bool> gemma_value(Answer& answer, std::string& json, std::size_t depth);

Reading<std::string_view> gemma_delimiter(Answer& answer) {
  const int found = co_await marker(answer, std::span(kGemmaInner).subspan(2));
  co_return found < 0 ? std::string_view() : kGemmaInner[2 + found];
}

// A key and its colon.
Reading<bool> gemma_key(Answer& answer, std::string& key) {
  co_await skip_space(answer);
  const std::string_view delimiter = co_await gemma_delimiter(answer);
  bool found = true;
  if (delimiter.empty()) {
    key = co_await bare_text(answer, ":,{}[]");
  } else {
    found = co_await until(answer, delimiter, key);
  }
  found = found && !key.empty() && co_await literal(answer, ":");
  co_return found;
}

Reading<bool> gemma_elements(Answer& answer, std::string& json, bool pairs, std::size_t depth) {
  const char close = pairs ? '}' : ']';
  json += pairs ? '{' : '[';
  for (bool first = true;; first = false) {
    co_await skip_space(answer);
    int c = co_await answer.source.next();
    if (c != close) {
      if (!first) json += ", ";
      if (pairs) {
        std::string key;
        const bool found = co_await gemma_key(answer, key);
        if (!found) co_return false;
        json::append_quoted(json, key);
        json += ": ";
      }
      const bool read = co_await gemma_value(answer, json, depth);
      if (!read) co_return false;
      co_await skip_space(answer);
      c = co_await answer.source.next();
    }
    if (c != close && c != ',') co_return false;
    answer.source.take();
    if (c == ',') continue;
    json += close;
    co_return true;
  }
}

Reading<bool> gemma_value(Answer& answer, std::string& json, std::size_t depth) {
  co_await skip_space(answer);
  const int c = co_await answer.source.next();
  if (c == Source::kEnd || depth == kDepthMax) co_return false;
  if (c == '{' || c == '[') {
    answer.source.take();
    const bool read = co_await gemma_elements(answer, json, c == '{', depth + 1);
    co_return read;
  }
  const std::string_view delimiter = co_await gemma_delimiter(answer);
  if (!delimiter.empty()) {
    std::string text;
    const bool read = co_await until(answer, delimiter, text);
    json += quoted(text);
    co_return read;
  }
  const std::string text = co_await bare_text(answer, ",}]");
  json += is_scalar(text) ? text : quoted(text);
  co_return !text.empty();
}

}  // namespace

Reading<Outcome> read_pythonic(Answer& answer, int /*opener*/) {
  const Outcome outcome = co_await python_calls(answer, Names::kAny);
  if (outcome == Outcome::kRead) co_await literal(answer, kPythonicInner[0]);
  co_return outcome;
}

Reading<Outcome> read_pythonic_bare(Answer& answer) {
  const Outcome outcome = co_await python_calls(answer, Names::kDeclared);
  co_return outcome;
}

Reading<Outcome> read_python_tag(Answer& answer, int /*opener*/) {
  co_await skip_space(answer);
  const int c = co_await answer.source.next();
  if (c == '{' || c == '[') {
    const Outcome outcome = co_await read_framed_call_objects(answer, "");
    co_return outcome;
  }
  const Outcome outcome = co_await python_call(answer, Names::kAny);
  co_return outcome;
}

Reading<Outcome> read_gemma(Answer& answer, int opener) {
  co_await skip_space(answer);
  bool found = co_await literal(answer, "call:");
  const std::string name = co_await word(answer);
  found = found && !name.empty() && co_await literal(answer, "{");
  if (!found) co_return Outcome::kNot;
  const Tool* tool = answer.tool_named(name);
  ObjectText arguments;
  for (;;) {
    co_await skip_space(answer);
    found = co_await literal(answer, "}");
    if (found) break;
    std::string key;
    std::string value;
    found = co_await gemma_key(answer, key);
    if (!found) co_return Outcome::kNot;
    co_await skip_space(answer);
    const std::string_view delimiter = co_await gemma_delimiter(answer);
    if (delimiter.empty()) {
      found = co_await gemma_value(answer, value, 0);
    } else {
      found = co_await until(answer, delimiter, value);
      const bool typed = tool != nullptr && tool->parameters.is_object();
      value = typed ? typed_value(tool, key, value) : quoted(value);
    }
    if (!found) co_return Outcome::kNot;
    arguments.add(key, value);
    co_await skip_space(answer);
    co_await literal(answer, ",");  // small models forget it
  }
  answer.begin_call(name, "");
  answer.sink.arguments(std::move(arguments).finish());
  co_await skip_space(answer);
  co_await literal(answer, kGemmaInner[opener]);
  co_return Outcome::kRead;
}

Reading<Outcome> read_gemma_bare(Answer& answer) {
  const int c = co_await answer.source.next();
  const int behind = co_await answer.source.ahead(1);
  if (c == '[' && behind != Source::kEnd && is_letter(static_cast<char>(behind))) {
    const Outcome outcome = co_await python_calls(answer, Names::kDeclared);
    co_return outcome;
  }
  const Outcome outcome = co_await read_bare_calls(answer);
  co_return outcome;
}

}  // namespace coxswain::reply
