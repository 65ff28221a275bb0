// What models write, read whole, byte by byte and in pieces that the input draws.
//
// First byte: how calls are written; second: how thoughts are; third: the cuts, and whether the prompt has opened the
// thoughts. The rest: the text.

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz_input.h"
#include "reply/testing/answers.h"

namespace {

using coxswain::fuzz::Draw;
using coxswain::fuzz::require;
namespace reply = coxswain::reply;
using Parts = std::vector<reply::Part>;

constexpr std::size_t kTextMax = 4096;
constexpr std::size_t kPieceMax = 16;

std::shared_ptr<const std::vector<reply::Tool>> declared_tools() {
  auto tools = std::make_shared<std::vector<reply::Tool>>();
  tools->push_back({"f"});
  tools->push_back({"python"});
  tools->push_back({"typed", *coxswain::json::parse(R"({"properties": {"s": {"type": "string"},
                        "n": {"type": ["integer", "null"]}, "o": {"anyOf": [{"type": "object"},
                        {"type": "boolean"}]}, "l": {"type": "list"}}})")});
  return tools;
}

// `next_size` gives each piece's; between pieces stand special tokens that belong to no frame.
template <typename NextSize>
Parts read(const reply::ParserSetup& setup, std::string_view text, const NextSize& next_size) {
  const auto parser = reply::make_parser(setup);
  Parts parts;
  while (!text.empty()) {
    const std::size_t size = std::min(next_size(), text.size());
    parser->push(text.substr(0, size), false, parts);
    parser->push("<|unknown|>", true, parts);
    text.remove_prefix(size);
  }
  parser->finish(parts);
  return reply::testing::joined(parts);
}

std::string without_space(std::string_view text) {
  std::string out;
  std::ranges::copy_if(text, std::back_inserter(out), [](char c) {
    return c != ' ' && c != '\n' && c != '\t' && c != '\r';
  });
  return out;
}

// Whether frames are dropped although they hold neither call nor thought.
bool drops_frames(const reply::Formats& formats) {
  using reply::ToolFormat;
  return formats.reasoning != reply::ReasoningFormat::kNone ||
         formats.tools == ToolFormat::kHarmony || formats.tools == ToolFormat::kFunctionary ||
         formats.tools == ToolFormat::kFunctionaryV3;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto tools = declared_tools();
  constexpr int kToolFormats = static_cast<int>(reply::ToolFormat::kCohere) + 1;
  constexpr int kReasoningFormats = static_cast<int>(reply::ReasoningFormat::kHarmony) + 1;
  coxswain::fuzz::Input input(data, size);
  reply::ParserSetup setup{.tools = tools};
  setup.formats.tools = static_cast<reply::ToolFormat>(input.byte() % kToolFormats);
  setup.formats.reasoning = static_cast<reply::ReasoningFormat>(input.byte() % kReasoningFormats);
  const std::uint8_t cuts = input.byte();
  setup.in_reasoning = (cuts & 1) != 0;
  const std::string_view text = input.rest().substr(0, kTextMax);

  const Parts whole = read(setup, text, [&] { return text.size(); });
  require(read(setup, text, [] { return std::size_t{1}; }) == whole, "byte by byte as at once");
  Draw draw(cuts);
  require(read(setup, text, [&] { return 1 + draw.below(kPieceMax); }) == whole,
          "in pieces as at once");

  bool in_call = false;
  for (const reply::Part& part : whole) {
    if (part.kind == reply::Part::Kind::kArguments) require(in_call, "arguments follow a call");
    require(part.kind != reply::Part::Kind::kCall || !part.text.empty(), "calls have names");
    in_call = part.kind == reply::Part::Kind::kCall;
  }
  const reply::testing::Reply reply = reply::testing::gathered(whole);
  if (reply.calls.empty() && !drops_frames(setup.formats)) {
    require(without_space(reply.content) == without_space(text), "what is no call is text");
  }
  return 0;
}
