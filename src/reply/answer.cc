#include "reply/answer.h"

#include <array>

#include "reply/characters.h"
#include "reply/json_scanner.h"

namespace coxswain::reply {

const Tool* Answer::tool_named(std::string_view name) const {
  if (!tools) return nullptr;
  for (const Tool& tool : *tools) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

void Answer::begin_call(std::string_view name, std::string_view id) {
  source.drop_held();
  sink.begin_call(name, id);
}

Reading<bool> literal(Answer& answer, std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int c = co_await answer.source.ahead(i);
    if (c != static_cast<unsigned char>(text[i])) co_return false;
  }
  answer.source.skip(text.size());
  co_return true;
}

Reading<int> marker(Answer& answer, std::span<const std::string_view> markers) {
  std::uint32_t left = ~std::uint32_t{0};
  for (std::size_t i = 0; left != 0; ++i) {
    const int c = co_await answer.source.ahead(i);
    std::uint32_t still = 0;
    for (std::size_t m = 0; m < markers.size(); ++m) {
      const std::string_view text = markers[m];
      if ((left >> m & 1U) == 0 || static_cast<unsigned char>(text[i]) != c) continue;
      if (i + 1 == text.size()) {
        answer.source.skip(text.size());
        co_return static_cast<int>(m);
      }
      still |= std::uint32_t{1} << m;
    }
    left = still;
  }
  co_return -1;
}

Reading<Done> skip_space(Answer& answer) {
  for (;;) {
    const int c = co_await answer.source.next();
    if (c == Source::kEnd || !is_space(static_cast<char>(c))) co_return Done{};
    answer.source.take();
  }
}

Reading<std::string> word(Answer& answer) {
  std::string text;
  for (;;) {
    const int c = co_await answer.source.next();
    if (c == Source::kEnd || !is_name(static_cast<char>(c))) co_return text;
    text += answer.source.take();
  }
}

Reading<bool> until(Answer& answer, std::string_view end, std::string& text) {
  for (;;) {
    const int c = co_await answer.source.next();
    if (c == Source::kEnd) co_return false;
    if (c == static_cast<unsigned char>(end.front())) {
      const bool ended = co_await literal(answer, end);
      if (ended) co_return true;
    }
    text += answer.source.take();
  }
}

void append_json_byte(std::string& json, char c, bool in_string) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (!in_string || byte >= 0x20) {
    json += c;
  } else if (c == '\n' || c == '\t' || c == '\r') {
    json += '\\';
    json += c == '\n' ? 'n' : c == '\t' ? 't' : 'r';
  } else {
    json += "\\u00";
    json += kHex[byte >> 4];
    json += kHex[byte & 15];
  }
}

Reading<Outcome> stream_arguments(Answer& answer) {
  JsonScanner scanner;
  for (;;) {
    const int next = co_await answer.source.next();
    if (next == Source::kEnd) co_return Outcome::kBroken;
    const bool in_string = scanner.in_string();
    const JsonScanner::Step step = scanner.feed(static_cast<char>(next));
    if (step == JsonScanner::Step::kBad) co_return Outcome::kBroken;
    std::string json;
    append_json_byte(json, answer.source.take(), in_string);
    answer.sink.arguments(json);
    if (step == JsonScanner::Step::kEnd) co_return Outcome::kRead;
  }
}

Reading<Outcome> named_call(Answer& answer, std::string_view name, std::string_view id) {
  co_await skip_space(answer);
  const int c = co_await answer.source.next();
  if (c != '{') co_return Outcome::kNot;
  answer.begin_call(name, id);
  const Outcome outcome = co_await stream_arguments(answer);
  co_return outcome;
}

}  // namespace coxswain::reply
