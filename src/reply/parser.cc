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
  std::vector<std::string_view> markers;  // looked for in text: openers of both, reasoning.dropped
  bool in_reasoning = false;
};

Frames frames_for(const ParserSetup& setup) {
  const bool has_tools = setup.tools && !setup.tools->empty();
  const CallFormat& calls = call_format(has_tools ? setup.formats.tools : ToolFormat::kNone);
  const bool channels = calls.format == ToolFormat::kHarmony;
  Frames frames{calls,
                reasoning_style(channels ? ReasoningFormat::kHarmony : setup.formats.reasoning),
                {},
                setup.in_reasoning};
  for (const Texts texts : {calls.openers, frames.reasoning.openers, frames.reasoning.dropped}) {
    frames.markers.insert(frames.markers.end(), texts.begin(), texts.end());
  }
  return frames;
}

bool begins_one(Texts markers, char c) {
  return std::ranges::any_of(markers, [c](std::string_view text) { return text.front() == c; });
}

// Behind the opening of a block: all up to its end. Whether a response is framed behind it.
Reading<bool> read_reasoning(Answer& answer, const ReasoningStyle& style) {
  if (style.read != nullptr) {
    co_await style.read(answer, kInThoughts);
    answer.source.drop_held();
    answer.sink.frame();
    co_return false;
  }
  co_await literal(answer, style.label);
  co_await literal(answer, "\n");
  for (;;) {
    const int next = co_await answer.source.next();
    if (next == Source::kEnd) co_return false;
    const char c = static_cast<char>(next);
    int closed = -1;
    if (c == '\n') answer.source.take();
    if (c == '\n' || begins_one(style.close, c)) closed = co_await marker(answer, style.close);
    if (closed >= 0) break;
    answer.sink.reasoning(c == '\n' ? c : answer.source.take());
  }
  answer.sink.frame();
  if (style.response_open.empty()) co_return false;
  co_await skip_space(answer);
  const bool framed = co_await literal(answer, style.response_open);
  co_return framed;
}

// Takes the one of `texts` that comes next, which is held then.
Reading<bool> opened(Answer& answer, Texts texts) {
  answer.source.hold();
  const int found = co_await marker(answer, texts);
  if (found < 0) answer.source.drop_held();
  co_return found >= 0;
}

void finish_call(Answer& answer, Outcome outcome) {
  if (outcome == Outcome::kRead) {
    answer.source.drop_held();
    answer.sink.frame();
  } else {
    answer.sink.text(answer.source.release());
  }
}

// A call, a message's header or a frame to drop, if one begins here; otherwise a byte of text. Whether a message of
// text has begun.
Reading<bool> read_marker_or_byte(Answer& answer, const Frames& frames) {
  answer.source.hold();
  const int found = co_await marker(answer, frames.markers);
  if (found < 0) {
    answer.source.drop_held();
    answer.sink.text(answer.source.take());
    co_return false;
  }
  const int n_calls = static_cast<int>(frames.calls.openers.size());
  const int n_openers = n_calls + static_cast<int>(frames.reasoning.openers.size());
  Outcome outcome = Outcome::kRead;
  if (found < n_calls) {
    outcome = co_await frames.calls.read(answer, found);
  } else if (found < n_openers) {
    outcome = co_await frames.reasoning.read(answer, found - n_calls);
  }
  finish_call(answer, outcome);
  co_return outcome == Outcome::kRead&& found >= n_calls&& found < n_openers;
}

// The rest of a header that the prompt has begun.
Reading<Done> read_start(Answer& answer, const ReasoningStyle& style) {
  answer.source.hold();
  co_await skip_space(answer);
  const bool found = co_await literal(answer, style.start);
  Outcome outcome = Outcome::kNot;
  if (found) outcome = co_await style.read(answer, kStart);
  finish_call(answer, outcome);
  co_return Done{};
}

Reading<Done> read_answer(Answer& answer, const Frames& frames) {
  const ReasoningStyle& reasoning = frames.reasoning;
  bool in_response = false;
  if (frames.in_reasoning && !reasoning.open.empty()) {
    co_await marker(answer, reasoning.open);  // some models repeat what their prompt ends with
    in_response = co_await read_reasoning(answer, reasoning);
  } else if (!reasoning.start.empty()) {
    co_await read_start(answer, reasoning);
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
    if (reasoning.read == nullptr && answer.sink.fresh() && begins_one(reasoning.open, c)) {
      const bool found = co_await opened(answer, reasoning.open);
      if (found) {
        finish_call(answer, Outcome::kRead);
        in_response = co_await read_reasoning(answer, reasoning);
        continue;
      }
    }
    if (in_response && c == reasoning.response_close.front()) {
      const bool found = co_await opened(answer, Texts(&reasoning.response_close, 1));
      if (found) {
        finish_call(answer, Outcome::kRead);
        in_response = false;
        continue;
      }
    }
    if (begins_one(frames.markers, c)) {
      const bool message = co_await read_marker_or_byte(answer, frames);
      bare = bare || (message && frames.calls.read_bare != nullptr);
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
    shows_special_ = setup.shows_special;
    answer_.tools = std::move(setup.tools);
    answer_.reads_calls = frames_.calls.format == ToolFormat::kHarmony;
    answer_.reads_thoughts = setup.formats.reasoning != ReasoningFormat::kNone;
    reading_.start(driver_);
  }

  void push(std::string_view text, bool special, std::vector<Part>& out) override {
    if (special && !shows_special_ && !known(text)) return;
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
    const ReasoningStyle& style = frames_.reasoning;
    return among(style.open) || among(style.close) || among(style.inner) ||
           among(frames_.markers) || among(frames_.calls.inner);
  }

  bool shows_special_ = false;
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
