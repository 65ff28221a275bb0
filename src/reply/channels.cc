#include "reply/channels.h"

#include "reply/formats.h"

namespace coxswain::reply {

namespace {

constexpr std::string_view kAssistant = "assistant";
constexpr std::string_view kFunctions = "functions.";
// Beside channel and recipient a header has no more than a type ("json"); a longer one is text.
constexpr int kHeaderWordsMax = 4;

struct Header {
  std::string channel = {};
  std::string recipient = {};
};

// Up to <|message|>.
Reading<bool> read_header(Answer& answer, int opener, Header& header) {
  constexpr std::string_view kMarkers[] = {kHarmonyOpeners[1], kHarmonyInner[0], kHarmonyInner[1]};
  if (opener == kStart) {
    header.recipient = co_await word(answer);
  } else {
    co_await skip_space(answer);
    const std::string text = co_await word(answer);
    if (opener == 0 && text != kAssistant) co_return false;
    if (opener == 1) header.channel = text;
  }
  for (int words = 0; words < kHeaderWordsMax; ++words) {
    co_await skip_space(answer);
    const int found = co_await marker(answer, kMarkers);
    if (found == 1) co_return true;
    co_await skip_space(answer);
    const std::string text = co_await word(answer);
    if (text.empty()) co_return false;
    if (found == 0) header.channel = text;
    if (found >= 0 || text != "to") continue;
    const bool recipient = co_await literal(answer, "=");
    if (!recipient) co_return false;
    header.recipient = co_await word(answer);
    if (header.recipient == kAssistant) header.recipient.clear();  // it speaks to itself
  }
  co_return false;
}

// The body of a call. Functions that the client did not declare have to be in their namespace.
Reading<Outcome> read_call(Answer& answer, std::string_view recipient) {
  const bool in_namespace = recipient.starts_with(kFunctions);
  const std::string name(in_namespace ? recipient.substr(kFunctions.size()) : recipient);
  if (!answer.reads_calls || name.empty()) co_return Outcome::kNot;
  if (!in_namespace && answer.tool_named(name) == nullptr) co_return Outcome::kNot;
  co_await skip_space(answer);
  const int empty = co_await marker(answer, kHarmonyEnds);
  if (empty >= 0) {
    answer.begin_call(name, "");
    answer.sink.arguments("{}");
    co_return Outcome::kRead;
  }
  const Outcome outcome = co_await named_call(answer, name, "");
  if (outcome != Outcome::kRead) co_return outcome;
  co_await skip_space(answer);
  co_await marker(answer, kHarmonyEnds);
  co_return Outcome::kRead;
}

// Up to a marker. An index of kHarmonyOpeners, which is held; -1 where the message or the answer ends.
Reading<int> read_thoughts(Answer& answer) {
  constexpr std::string_view kMarkers[] = {
      kHarmonyOpeners[0], kHarmonyOpeners[1], kHarmonyEnds[0], kHarmonyEnds[1], kHarmonyEnds[2]};
  constexpr int kOpeners = 2;
  for (;;) {
    const int next = co_await answer.source.next();
    if (next == Source::kEnd) co_return -1;
    if (next == '<') {
      answer.source.hold();
      const int found = co_await marker(answer, kMarkers);
      if (found >= 0) co_return found < kOpeners ? found : -1;
      answer.source.drop_held();
    }
    answer.sink.reasoning(answer.source.take());
  }
}

struct Message {
  bool has_header = false;
  bool is_thought = false;
  Outcome outcome = Outcome::kNot;
};

// A header, and the body if it is a call's.
Reading<Message> read_message(Answer& answer, int opener) {
  Header header;
  Message out;
  out.has_header = co_await read_header(answer, opener, header);
  if (!out.has_header) co_return out;
  if (!header.recipient.empty()) {
    out.outcome = co_await read_call(answer, header.recipient);
    co_return out;
  }
  out.is_thought = answer.reads_thoughts && header.channel == "analysis";
  if (!out.is_thought) answer.sink.begin_message();
  out.outcome = Outcome::kRead;
  co_return out;
}

}  // namespace

Reading<Outcome> read_harmony(Answer& answer, int opener) {
  bool in_thoughts = opener == kInThoughts;
  if (in_thoughts) opener = co_await read_thoughts(answer);
  while (!in_thoughts || opener >= 0) {
    const Message message = co_await read_message(answer, opener);
    if (message.has_header || !in_thoughts) {
      if (!message.is_thought) co_return message.outcome;
      answer.source.drop_held();
      answer.sink.frame();
      in_thoughts = true;
    } else {  // thoughts about markers
      for (const char c : answer.source.release()) answer.sink.reasoning(c);
    }
    opener = co_await read_thoughts(answer);
  }
  co_return Outcome::kRead;
}

}  // namespace coxswain::reply
