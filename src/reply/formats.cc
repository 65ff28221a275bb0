#include "reply/formats.h"

#include <algorithm>
#include <array>

#include "reply/channels.h"
#include "reply/framed_calls.h"
#include "reply/json_calls.h"
#include "reply/spelled_values.h"
#include "reply/tagged_calls.h"

namespace coxswain::reply {

namespace {

using std::string_view;

constexpr std::array<string_view, 1> kDemoOpeners = {"<|tool_call|>"};
constexpr std::array<string_view, 1> kHermesOpeners = {"<tool_call>"};
constexpr std::array<string_view, 1> kHermesInner = {"</tool_call>"};

Reading<Outcome> read_demo(Answer& answer, int /*opener*/) {
  return read_framed_call_objects(answer, "");
}

Reading<Outcome> read_hermes(Answer& answer, int /*opener*/) {
  return read_framed_call_objects(answer, kHermesInner[0]);
}

constexpr std::array<string_view, 2> kGraniteOpeners = {"<|tool_call|>", "<tool_call>"};
constexpr std::array<string_view, 2> kPhi4Openers = {"functools", "<|tool_call|>"};
constexpr std::array<string_view, 1> kPhi4Inner = {"<|/tool_call|>"};
constexpr std::array<string_view, 1> kCohereOpeners = {"<|START_ACTION|>"};
constexpr std::array<string_view, 1> kCohereInner = {"<|END_ACTION|>"};
constexpr std::array<string_view, 4> kCohereDropped = {
    "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"};

Reading<Outcome> read_phi4(Answer& answer, int /*opener*/) {
  return read_framed_call_objects(answer, kPhi4Inner[0]);
}

Reading<Outcome> read_cohere(Answer& answer, int /*opener*/) {
  return read_framed_call_objects(answer, kCohereInner[0]);
}

constexpr std::array kCallFormats = {
    CallFormat{ToolFormat::kNone, "none"},
    CallFormat{ToolFormat::kJson, "json", {}, {}, nullptr, read_bare_calls},
    CallFormat{ToolFormat::kDemo, "demo", kDemoOpeners, {}, read_demo},
    CallFormat{ToolFormat::kHermes, "hermes", kHermesOpeners, kHermesInner, read_hermes},
    CallFormat{
        ToolFormat::kLlama3Json, "llama3_json", kPythonTag, {}, read_python_tag, read_bare_calls},
    CallFormat{ToolFormat::kLlama3Pythonic,
               "llama3_pythonic",
               kPythonicOpeners,
               kPythonicInner,
               read_pythonic,
               read_pythonic_bare},
    CallFormat{ToolFormat::kMistral, "mistral", kMistralOpeners, kMistralInner, read_mistral},
    CallFormat{
        ToolFormat::kMistralArgs, "mistral_args", kMistralOpeners, kMistralInner, read_mistral},
    CallFormat{
        ToolFormat::kQwen3Coder, "qwen3_coder", kQwen3CoderOpeners, kTagInner, read_qwen3_coder},
    CallFormat{
        ToolFormat::kDeepSeekV3, "deepseek_v3", kDeepSeekOpeners, kDeepSeekInner, read_deepseek},
    CallFormat{
        ToolFormat::kDeepSeekV31, "deepseek_v31", kDeepSeekOpeners, kDeepSeekInner, read_deepseek},
    CallFormat{ToolFormat::kHarmony, "harmony"},  // read with its messages: ReasoningStyle::read
    CallFormat{
        ToolFormat::kGemma, "gemma", kGemmaOpeners, kGemmaInner, read_gemma, read_gemma_bare},
    CallFormat{ToolFormat::kGlm45, "glm45", kHermesOpeners, kGlm45Inner, read_glm45},
    CallFormat{ToolFormat::kGranite, "granite", kGraniteOpeners, kHermesInner, read_hermes},
    CallFormat{ToolFormat::kPhi4, "phi4", kPhi4Openers, kPhi4Inner, read_phi4},
    CallFormat{ToolFormat::kFunctionary,
               "functionary",
               kFunctionaryOpeners,
               {},
               read_functionary,
               read_functionary_bare},
    CallFormat{ToolFormat::kFunctionaryV3,
               "functionary_v3",
               kFunctionaryOpeners,
               {},
               read_functionary,
               read_functionary_bare},
    CallFormat{ToolFormat::kKimiK2, "kimi_k2", kKimiOpeners, kKimiInner, read_kimi},
    CallFormat{ToolFormat::kCohere, "cohere", kCohereOpeners, kCohereInner, read_cohere},
};

constexpr string_view kThinkOpen[] = {"<think>"};
constexpr string_view kThinkClose[] = {"</think>"};
constexpr string_view kMistralThinkOpen[] = {"[THINK]"};
constexpr string_view kMistralThinkClose[] = {"[/THINK]"};
constexpr string_view kGraniteOpen[] = {"Here is my thought process:",
                                        "Here's my thought process:"};
constexpr string_view kGraniteClose[] = {"Here is my response:", "Here's my response:"};
constexpr string_view kCohereThinkOpen[] = {"<|START_THINKING|>"};
constexpr string_view kCohereThinkClose[] = {"<|END_THINKING|>"};
constexpr string_view kGemmaThinkOpen[] = {"<|channel>"};
constexpr string_view kGemmaThinkClose[] = {"<channel|>"};
constexpr string_view kHarmonyThinkOpen[] = {"<|channel|>analysis<|message|>"};
constexpr string_view kHarmonyThinkClose[] = {"<|end|><|start|>assistant"};

constexpr std::array kReasoningStyles = {
    ReasoningStyle{ReasoningFormat::kNone, "none"},
    ReasoningStyle{ReasoningFormat::kThink, "think", kThinkOpen, kThinkClose},
    ReasoningStyle{ReasoningFormat::kMistral, "mistral", kMistralThinkOpen, kMistralThinkClose},
    ReasoningStyle{ReasoningFormat::kGranite, "granite", kGraniteOpen, kGraniteClose},
    ReasoningStyle{.format = ReasoningFormat::kGranite33,
                   .name = "granite33",
                   .open = kThinkOpen,
                   .close = kThinkClose,
                   .response_open = "<response>",
                   .response_close = "</response>"},
    ReasoningStyle{.format = ReasoningFormat::kCohere,
                   .name = "cohere",
                   .open = kCohereThinkOpen,
                   .close = kCohereThinkClose,
                   .dropped = kCohereDropped,
                   .content_begin = kCohereDropped[0]},
    ReasoningStyle{.format = ReasoningFormat::kGemma,
                   .name = "gemma",
                   .open = kGemmaThinkOpen,
                   .close = kGemmaThinkClose,
                   .label = "thought\n"},
    ReasoningStyle{.format = ReasoningFormat::kHarmony,
                   .name = "harmony",
                   .open = kHarmonyThinkOpen,
                   .close = kHarmonyThinkClose,
                   .dropped = kHarmonyEnds,
                   .content_begin = "<|channel|>final<|message|>",
                   .openers = kHarmonyOpeners,
                   .inner = kHarmonyInner,
                   .start = kHarmonyStart,
                   .read = read_harmony},
};

template <typename Rows>
std::string joined_names(const Rows& rows) {
  std::string names;
  for (const auto& row : rows) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

}  // namespace

std::span<const CallFormat> call_formats() {
  return kCallFormats;
}

std::span<const ReasoningStyle> reasoning_styles() {
  return kReasoningStyles;
}

const CallFormat& call_format(ToolFormat format) {
  const auto row = std::ranges::find(kCallFormats, format, &CallFormat::format);
  return row == kCallFormats.end() ? kCallFormats[0] : *row;
}

const ReasoningStyle& reasoning_style(ReasoningFormat format) {
  const auto row = std::ranges::find(kReasoningStyles, format, &ReasoningStyle::format);
  return row == kReasoningStyles.end() ? kReasoningStyles[0] : *row;
}

std::optional<ToolFormat> tool_format_named(std::string_view name) {
  for (const CallFormat& row : kCallFormats) {
    if (row.name == name) return row.format;
  }
  return std::nullopt;
}

std::optional<ReasoningFormat> reasoning_format_named(std::string_view name) {
  for (const ReasoningStyle& row : kReasoningStyles) {
    if (row.name == name) return row.format;
  }
  return std::nullopt;
}

std::string_view name_of(ToolFormat format) {
  return call_format(format).name;
}

std::string_view name_of(ReasoningFormat format) {
  return reasoning_style(format).name;
}

std::string tool_format_names() {
  return joined_names(kCallFormats);
}

std::string reasoning_format_names() {
  return joined_names(kReasoningStyles);
}

ReasoningFrames reasoning_frames(ReasoningFormat format) {
  const ReasoningStyle& style = reasoning_style(format);
  if (style.open.empty()) return {};
  return {std::string(style.open.front()).append(style.label),
          std::string(style.close.front()),
          std::string(style.content_begin)};
}

bool opens_reasoning(ReasoningFormat format, std::string_view prompt_tail) {
  constexpr std::string_view kSpace = " \t\r\n";
  const ReasoningStyle& style = reasoning_style(format);
  const auto without_space = [&](std::string_view text) {
    return text.substr(0, text.find_last_not_of(kSpace) + 1);
  };
  prompt_tail = without_space(prompt_tail);
  const std::string_view label = without_space(style.label);
  if (prompt_tail.ends_with(label)) prompt_tail.remove_suffix(label.size());
  return std::ranges::any_of(style.open,
                             [&](std::string_view open) { return prompt_tail.ends_with(open); });
}

}  // namespace coxswain::reply
