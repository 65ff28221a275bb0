#include "reply/parser.h"

#include <algorithm>
#include <utility>

#include "reply/answer.h"
#include "reply/characters.h"
#include "reply/formats.h"

namespace coxswain::reply {

namespace {

// What an answer of certain formats is read by.
struct Frames {
  const CallFormat& calls;
  const ReasoningStyle& reasoning;
  std::vector<std::string_view> markers;  // looked for in text: calls.openers, reasoning.dropped
  bool in_reasoning = false;
};

Frames frames_for(const ParserSetup& setup) {
  const bool calls = setup.tools && !setup.tools->empty();
  Frames frames{call_format(calls ? setup.formats.tools : ToolFormat::kNone),
                reasoning_style(setup.formats.reasoning),
                {},
                setup.in_reasoning};
  frames.markers.assign(frames.calls.openers.begin(), frames.calls.openers.end());
  frames.markers.insert(
      frames.markers.end(), frames.reasoning.dropped.begin(), frames.reasoning.dropped.end());
  return frames;
}

bool begins_one(Texts markers, char c) {
  return std::ranges::any_of(markers, [c](std::string_view text) { return text.front() == c; });
}

// Behind the opening of a block: all up to its end.
Reading<Done> read_reasoning(Answer& answer, std::string_view close) {
  co_await literal(answer, "\n");
  for (;;) {
    const int next = co_await answer.source.next();
    if (next == Source::kEnd) co_return Done{};
    const char c = static_cast<char>(next);
    bool closed = false;
    if (c == '\n') answer.source.take();
    if (c == '\n' || c == close.front()) closed = co_await literal(answer, close);
    if (closed) break;
    answer.sink.reasoning(c == '\n' ? c : answer.source.take());
  }
  answer.sink.frame();
  co_return Done{};
}

// Takes `text`, which is held then.
Reading<bool> opened(Answer& answer, std::string_view text) {
  answer.source.hold();
  const bool found = co_await literal(answer, text);
  if (!found) answer.source.drop_held();
  co_return found;
}

void finish_call(Answer& answer, Outcome outcome) {
  if (outcome == Outcome::kRead) {
    answer.source.drop_held();
    answer.sink.frame();
  } else {
    answer.sink.text(answer.source.release());
  }
}

// A call or a frame to drop, if one begins here; otherwise a byte of text.
Reading<Done> read_marker_or_byte(Answer& answer, const Frames& frames) {
  answer.source.hold();
  const int found = co_await marker(answer, frames.markers);
  if (found < 0) {
    answer.source.drop_held();
    answer.sink.text(answer.source.take());
  } else if (static_cast<std::size_t>(found) < frames.calls.openers.size()) {
    const Outcome outcome = co_await frames.calls.read(answer, found);
    finish_call(answer, outcome);
  } else {
    finish_call(answer, Outcome::kRead);
  }
  co_return Done{};
}

Reading<Done> read_answer(Answer& answer, const Frames& frames) {
  const ReasoningStyle& reasoning = frames.reasoning;
  if (frames.in_reasoning && !reasoning.open.empty()) {
    co_await literal(answer, reasoning.open);  // some models repeat what their prompt ends with
    co_await read_reasoning(answer, reasoning.close);
  }
  bool bare = frames.calls.read_bare != nullptr;
  for (;;) {
    const int next = co_await answer.source.next();
    if (next == Source::kEnd) co_return Done{};
    const char c = static_cast<char>(next);
    if (is_space(c)) {
      answer.sink.text(answer.source.take());
      continue;
    }
    if (answer.sink.fresh() && !reasoning.open.empty() && c == reasoning.open.front()) {
      const bool found = co_await opened(answer, reasoning.open);
      if (found) {
        finish_call(answer, Outcome::kRead);
        co_await read_reasoning(answer, reasoning.close);
        continue;
      }
    }
    if (begins_one(frames.markers, c)) {
      co_await read_marker_or_byte(answer, frames);
    } else if (std::exchange(bare, false)) {
      answer.source.hold();
      const Outcome outcome = co_await frames.calls.read_bare(answer);
      finish_call(answer, outcome);
    } else {
      answer.sink.text(answer.source.take());
    }
  }
}

class AnswerParser final : public Parser {
 public:
  explicit AnswerParser(ParserSetup setup)
      : frames_(frames_for(setup)), reading_(read_answer(answer_, frames_)) {
    answer_.tools = std::move(setup.tools);
    reading_.start(driver_);
  }

  void push(std::string_view text, bool special, std::vector<Part>& out) override {
    if (special && !known(text)) return;
    answer_.source.append(text);
    go_on(out);
  }

  void finish(std::vector<Part>& out) override {
    answer_.source.end();
    go_on(out);
    answer_.sink.flush();
  }

 private:
  void go_on(std::vector<Part>& out) {
    answer_.sink.attach(out);
    if (answer_.source.ready()) driver_.run();
  }

  // Whether a special token belongs to a frame.
  bool known(std::string_view text) const {
    const auto among = [text](Texts texts) {
      return std::ranges::find(texts, text) != texts.end();
    };
    return text == frames_.reasoning.open || text == frames_.reasoning.close ||
           among(frames_.markers) || among(frames_.calls.inner);
  }

  Answer answer_;
  Frames frames_;
  Driver driver_;
  Reading<Done> reading_;
};

}  // namespace

std::unique_ptr<Parser> make_parser(ParserSetup setup) {
  return std::make_unique<AnswerParser>(std::move(setup));
}

}  // namespace coxswain::reply
