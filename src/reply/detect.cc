// Which formats a chat template speaks of: the frames of former turns, which it writes, are those of its model.

#include <algorithm>
#include <array>

#include "reply/parser.h"

namespace coxswain::reply {

namespace {

using std::string_view;

// A format that a template speaks of if all of `texts` stand in it.
template <typename Format>
struct Sign {
  Format format;
  std::array<string_view, 2> texts;
};

// The first row that fits counts.
constexpr std::array kToolSigns = {
    // Apriel: a list behind <tool_calls>, of which only its instructions speak as hermes does.
    Sign<ToolFormat>{ToolFormat::kNone, {"<tool_calls>["}},
    Sign<ToolFormat>{ToolFormat::kHarmony, {"<|channel|>", "<|message|>"}},
    Sign<ToolFormat>{ToolFormat::kGlm45, {"<tool_call>", "<arg_key>"}},
    Sign<ToolFormat>{ToolFormat::kQwen3Coder, {"<tool_call>", "<parameter="}},
    Sign<ToolFormat>{ToolFormat::kHermes, {"<tool_call>"}},
    Sign<ToolFormat>{ToolFormat::kGranite, {"<|tool_call|>", "<|start_of_role|>"}},
    Sign<ToolFormat>{ToolFormat::kPhi4, {"<|tool_call|>", "<|/tool_call|>"}},
    Sign<ToolFormat>{ToolFormat::kDemo, {"<|tool_call|>"}},
    Sign<ToolFormat>{ToolFormat::kPhi4, {"functools["}},
    Sign<ToolFormat>{ToolFormat::kPhi4, {"<|tool|>", "<|/tool|>"}},
    Sign<ToolFormat>{ToolFormat::kMistralArgs, {"[TOOL_CALLS]", "[ARGS]"}},
    Sign<ToolFormat>{ToolFormat::kMistral, {"[TOOL_CALLS]"}},
    Sign<ToolFormat>{ToolFormat::kDeepSeekV3, {"<｜tool▁call▁begin｜>", "```json"}},
    Sign<ToolFormat>{ToolFormat::kDeepSeekV31, {"<｜tool▁call▁begin｜>"}},
    Sign<ToolFormat>{ToolFormat::kKimiK2, {"<|tool_call_begin|>"}},
    Sign<ToolFormat>{ToolFormat::kCohere, {"<|START_ACTION|>"}},
    Sign<ToolFormat>{ToolFormat::kGemma, {"<|tool_call>call:"}},
    Sign<ToolFormat>{ToolFormat::kGemma, {"<start_function_call>"}},
    Sign<ToolFormat>{ToolFormat::kFunctionary, {"<function=", "</function>"}},
    Sign<ToolFormat>{ToolFormat::kFunctionaryV3, {">>>all"}},
    Sign<ToolFormat>{ToolFormat::kLlama3Pythonic, {"[func_name1(params_name1="}},
    Sign<ToolFormat>{ToolFormat::kLlama3Json, {"<|start_header_id|>", "\"parameters\": "}},
};

constexpr std::array kReasoningSigns = {
    Sign<ReasoningFormat>{ReasoningFormat::kHarmony, {"<|channel|>", "<|message|>"}},
    Sign<ReasoningFormat>{ReasoningFormat::kGemma, {"<|channel>thought"}},
    Sign<ReasoningFormat>{ReasoningFormat::kMistral, {"[THINK]"}},
    Sign<ReasoningFormat>{ReasoningFormat::kCohere, {"<|START_THINKING|>"}},
    Sign<ReasoningFormat>{ReasoningFormat::kGranite, {"Here is my thought process:"}},
    Sign<ReasoningFormat>{ReasoningFormat::kGranite33, {"<think>", "<response>"}},
    Sign<ReasoningFormat>{ReasoningFormat::kThink, {"<think>"}},
};

template <typename Signs, typename Format>
Format first_of(const Signs& signs, string_view source, Format otherwise) {
  for (const auto& sign : signs) {
    const bool fits = std::ranges::all_of(
        sign.texts, [source](string_view text) { return source.find(text) != string_view::npos; });
    if (fits) return sign.format;
  }
  return otherwise;
}

}  // namespace

Formats detect_formats(std::string_view template_source,
                       const std::function<bool(std::string_view)>& /*has_token*/) {
  return {first_of(kToolSigns, template_source, ToolFormat::kNone),
          first_of(kReasoningSigns, template_source, ReasoningFormat::kNone)};
}

}  // namespace coxswain::reply
