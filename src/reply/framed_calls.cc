#include "reply/framed_calls.h"

#include "reply/characters.h"
#include "reply/json_calls.h"

namespace coxswain::reply {

namespace {

using ReadOne = Reading<Outcome> (*)(Answer& answer);

// Calls one behind the other, each opened by `call_open`, up to `close`. REQUIRES: if `in_call`, the first call's
// marker was taken already.
Reading<Outcome> read_section(
    Answer& answer, std::string_view call_open, std::string_view close, bool in_call, ReadOne one) {
  bool any = false;
  for (;;) {
    co_await skip_space(answer);
    const bool opened = in_call || co_await literal(answer, call_open);
    in_call = false;
    if (!opened) break;
    const Outcome outcome = co_await one(answer);
    if (outcome != Outcome::kRead) co_return outcome;
    any = true;
    answer.source.hold();
  }
  if (!any) co_return Outcome::kNot;
  co_await literal(answer, close);
  co_return Outcome::kRead;
}

Reading<Outcome> read_deepseek_call(Answer& answer) {
  std::string name = co_await word(answer);
  co_await skip_space(answer);
  bool found = co_await literal(answer, kDeepSeekInner[0]);
  if (!found || name.empty()) co_return Outcome::kNot;
  co_await skip_space(answer);
  const int c = co_await answer.source.next();
  bool fenced = false;
  if (c != '{') {
    name = co_await word(answer);
    co_await skip_space(answer);
    fenced = co_await literal(answer, "```json");
    if (!fenced || name.empty()) co_return Outcome::kNot;
  }
  const Outcome outcome = co_await named_call(answer, name, "");
  if (outcome != Outcome::kRead) co_return outcome;
  co_await skip_space(answer);
  if (fenced) {
    co_await literal(answer, "```");
    co_await skip_space(answer);
  }
  co_await literal(answer, kDeepSeekInner[1]);
  co_return Outcome::kRead;
}

// NAME of functions.NAME:INDEX; empty if it is none.
std::string_view name_in(std::string_view id) {
  constexpr std::string_view kPrefix = "functions.";
  const std::size_t colon = id.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == id.size()) return {};
  for (const char c : id.substr(colon + 1)) {
    if (!is_digit(c)) return {};
  }
  id = id.substr(0, colon);
  return id.starts_with(kPrefix) ? id.substr(kPrefix.size()) : id;
}

Reading<Outcome> read_kimi_call(Answer& answer) {
  co_await skip_space(answer);
  const std::string id = co_await word(answer);
  const std::string name(name_in(id));
  co_await skip_space(answer);
  const bool found = co_await literal(answer, kKimiInner[0]);
  if (!found || name.empty()) co_return Outcome::kNot;
  const Outcome outcome = co_await named_call(answer, name, id);
  if (outcome != Outcome::kRead) co_return outcome;
  co_await skip_space(answer);
  co_await literal(answer, kKimiInner[1]);
  co_return Outcome::kRead;
}

constexpr std::string_view kPython = "python";

// Whether >>>NAME comes next; >>> and a space are a Python shell's prompt within code.
Reading<bool> at_recipient(Answer& answer) {
  for (std::size_t i = 0; i < kFunctionaryOpeners[1].size(); ++i) {
    const int c = co_await answer.source.ahead(i);
    if (c != kFunctionaryOpeners[1][i]) co_return false;
  }
  const int c = co_await answer.source.ahead(kFunctionaryOpeners[1].size());
  co_return c != Source::kEnd&& is_name(static_cast<char>(c));
}

// Code up to the next recipient or the answer's end; or an object, as for other functions.
Reading<Outcome> read_code(Answer& answer) {
  int c = co_await answer.source.next();
  if (c == '{') {
    const Outcome outcome = co_await named_call(answer, kPython, "");
    co_return outcome;
  }
  answer.begin_call(kPython, "");
  answer.sink.arguments("{\"code\": \"");
  for (;;) {
    c = co_await answer.source.next();
    if (c == Source::kEnd) break;
    if (c == '>') {
      const bool ends = co_await at_recipient(answer);
      if (ends) break;
    }
    std::string json;
    if (c == '"' || c == '\\') json += '\\';
    append_json_byte(json, answer.source.take(), true);
    answer.sink.arguments(json);
  }
  answer.sink.arguments("\"}");
  co_return Outcome::kRead;
}

// NAME, the end of a line, and an object, or text for all.
Reading<Outcome> read_recipient(Answer& answer) {
  const std::string name = co_await word(answer);
  const bool line = co_await literal(answer, "\n");
  if (!line) co_return Outcome::kNot;
  if (name == "all") co_return Outcome::kRead;
  if (answer.tool_named(name) == nullptr) co_return Outcome::kNot;
  const Outcome outcome =
      name == kPython ? co_await read_code(answer) : co_await named_call(answer, name, "");
  co_return outcome;
}

}  // namespace

Reading<Outcome> read_deepseek(Answer& answer, int opener) {
  const Outcome outcome = co_await read_section(
      answer, kDeepSeekOpeners[1], kDeepSeekInner[2], opener == 1, read_deepseek_call);
  co_return outcome;
}

Reading<Outcome> read_kimi(Answer& answer, int opener) {
  const Outcome outcome =
      co_await read_section(answer, kKimiOpeners[1], kKimiInner[2], opener == 1, read_kimi_call);
  co_return outcome;
}

Reading<Outcome> read_mistral(Answer& answer, int /*opener*/) {
  co_await skip_space(answer);
  const int c = co_await answer.source.next();
  if (c == '[' || c == '{') {
    const Outcome outcome = co_await read_framed_call_objects(answer, "");
    co_return outcome;
  }
  const std::string name = co_await word(answer);
  if (name.empty()) co_return Outcome::kNot;
  std::string id;
  const bool has_id = co_await literal(answer, kMistralInner[0]);
  if (has_id) id = co_await word(answer);
  co_await skip_space(answer);
  co_await literal(answer, kMistralInner[1]);
  const Outcome outcome = co_await named_call(answer, name, id);
  co_return outcome;
}

Reading<Outcome> read_functionary(Answer& answer, int opener) {
  if (opener == 1) {
    const Outcome outcome = co_await read_recipient(answer);
    co_return outcome;
  }
  if (opener == 2) {
    if (answer.tool_named(kPython) == nullptr) co_return Outcome::kNot;
    const Outcome outcome = co_await read_code(answer);
    co_return outcome;
  }
  const std::string name = co_await word(answer);
  const bool closed = co_await literal(answer, ">");
  if (!closed || name.empty()) co_return Outcome::kNot;
  const Outcome outcome = co_await named_call(answer, name, "");
  if (outcome != Outcome::kRead) co_return outcome;
  co_await skip_space(answer);
  co_await literal(answer, "</function>");
  co_return Outcome::kRead;
}

Reading<Outcome> read_functionary_bare(Answer& answer) {
  const Outcome outcome = co_await read_recipient(answer);
  co_return outcome;
}

}  // namespace coxswain::reply
