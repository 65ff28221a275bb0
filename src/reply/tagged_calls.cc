#include "reply/tagged_calls.h"

#include "reply/typed_values.h"

namespace coxswain::reply {

namespace {

void emit(Answer& answer, std::string_view name, ObjectText& arguments) {
  answer.begin_call(name, "");
  answer.sink.arguments(std::move(arguments).finish());
}

// Values stand on lines of their own.
std::string_view without_line_ends(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

}  // namespace

Reading<Outcome> read_qwen3_coder(Answer& answer, int opener) {
  bool found = opener == 1;
  if (!found) {
    co_await skip_space(answer);
    found = co_await literal(answer, kQwen3CoderOpeners[1]);
  }
  const std::string name = co_await word(answer);
  found = found && co_await literal(answer, ">");
  if (!found || name.empty()) co_return Outcome::kNot;
  const Tool* tool = answer.tool_named(name);
  ObjectText arguments;
  for (;;) {
    co_await skip_space(answer);
    const bool parameter = co_await literal(answer, "<parameter=");
    if (!parameter) break;
    std::string key;
    std::string value;
    found = co_await until(answer, ">", key) && co_await until(answer, "</parameter>", value);
    if (!found) co_return Outcome::kNot;
    arguments.add(key, typed_value(tool, key, without_line_ends(value)));
  }
  found = co_await literal(answer, "</function>");
  if (!found) co_return Outcome::kNot;
  emit(answer, name, arguments);
  co_await skip_space(answer);
  co_await literal(answer, kTagInner[0]);
  co_return Outcome::kRead;
}

Reading<Outcome> read_glm45(Answer& answer, int /*opener*/) {
  co_await skip_space(answer);
  const std::string name = co_await word(answer);
  if (name.empty()) co_return Outcome::kNot;
  const Tool* tool = answer.tool_named(name);
  ObjectText arguments;
  for (;;) {
    co_await skip_space(answer);
    bool found = co_await literal(answer, kGlm45Inner[1]);
    if (!found) break;
    std::string key;
    std::string value;
    found = co_await until(answer, kGlm45Inner[2], key);
    if (!found) co_return Outcome::kNot;
    co_await skip_space(answer);
    found =
        co_await literal(answer, kGlm45Inner[3]) && co_await until(answer, kGlm45Inner[4], value);
    if (!found) co_return Outcome::kNot;
    arguments.add(key, typed_value(tool, key, value));
  }
  const bool closed = co_await literal(answer, kGlm45Inner[0]);
  if (!closed) co_return Outcome::kNot;
  emit(answer, name, arguments);
  co_return Outcome::kRead;
}

}  // namespace coxswain::reply
