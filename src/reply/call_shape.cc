#include "reply/parser.h"

namespace coxswain::reply {

CallShape call_shape(ToolFormat format) {
  CallShape shape{ToolFormat::kJson, "", "{\"name\": \"", "\", \"arguments\": ", "}"};
  switch (format) {
    case ToolFormat::kDemo:
      shape.format = format;
      shape.marker = "<|tool_call|>";
      break;
    case ToolFormat::kHermes:
      shape.format = format;
      shape.marker = "<tool_call>\n";
      break;
    case ToolFormat::kLlama3Json:
      shape.format = format;
      shape.between = "\", \"parameters\": ";
      break;
    case ToolFormat::kMistral:
      return {format, "[TOOL_CALLS]", "[{\"name\": \"", "\", \"arguments\": ", "}]"};
    case ToolFormat::kMistralArgs:
      return {format, "[TOOL_CALLS]", "", "[ARGS]", ""};
    case ToolFormat::kDeepSeekV3:
      return {format,
              "<｜tool▁calls▁begin｜>",
              "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
              "\n```json\n",
              "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"};
    case ToolFormat::kDeepSeekV31:
      return {format,
              "<｜tool▁calls▁begin｜>",
              "<｜tool▁call▁begin｜>",
              "<｜tool▁sep｜>",
              "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"};
    case ToolFormat::kHarmony:  // <|call|> behind it ends the answer, as a token
      return {
          format, "<|channel|>commentary to=", "functions.", " <|constrain|>json<|message|>", ""};
    case ToolFormat::kGranite:
      return {format, "<|tool_call|>", "[{\"name\": \"", "\", \"arguments\": ", "}]"};
    case ToolFormat::kPhi4:
      return {format, "functools", "[{\"name\": \"", "\", \"arguments\": ", "}]"};
    case ToolFormat::kFunctionary:
      return {format, "<function=", "", ">", "</function>"};
    case ToolFormat::kFunctionaryV3:
      return {format, "", "", "\n", ""};
    case ToolFormat::kKimiK2:
      return {format,
              "<|tool_calls_section_begin|>",
              "<|tool_call_begin|>functions.",
              ":0<|tool_call_argument_begin|>",
              "<|tool_call_end|><|tool_calls_section_end|>"};
    case ToolFormat::kCohere:
      return {format,
              "<|START_ACTION|>",
              "[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"",
              "\", \"parameters\": ",
              "}\n]<|END_ACTION|>"};
    default:
      break;
  }
  return shape;
}

MessageFrames message_frames(ToolFormat format) {
  if (format == ToolFormat::kHarmony) {
    return {{"<|channel|>analysis<|message|>",
             "<|channel|>commentary<|message|>",
             "<|channel|>final<|message|>"},
            {"<|end|><|start|>assistant"}};
  }
  if (format == ToolFormat::kCohere) {
    return {{"", "<|START_THINKING|>", "<|START_RESPONSE|>"},
            {"<|END_THINKING|>", "<|END_RESPONSE|>"}};
  }
  return {};
}

}  // namespace coxswain::reply
