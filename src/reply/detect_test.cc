// Which formats a template speaks of: texts of our own, and the templates of the reference data.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "json/json.h"
#include "reply/parser.h"

namespace coxswain::reply {
namespace {

Formats detected(std::string_view source) {
  return detect_formats(source, [](std::string_view) { return false; });
}

TEST(ReplyDetection, ReadsTheFramesOfFormerTurns) {
  using Tools = ToolFormat;
  using Thoughts = ReasoningFormat;
  const auto tools = [](std::string_view source) { return detected(source).tools; };
  const auto thoughts = [](std::string_view source) { return detected(source).reasoning; };
  EXPECT_EQ(tools("{{ message.content }}"), Tools::kNone);
  EXPECT_EQ(tools("<tool_call>\n{{ call | tojson }}\n</tool_call>"), Tools::kHermes);
  EXPECT_EQ(tools("within <tool_call> tags: <tool_calls>[{...}]</tool_calls>"), Tools::kNone);
  EXPECT_EQ(tools("<|tool_call|>{{ call | tojson }}"), Tools::kDemo);
  EXPECT_EQ(tools("<|start_of_role|> <|tool_call|>"), Tools::kGranite);
  EXPECT_EQ(tools("<|tool_call|>[]<|/tool_call|>"), Tools::kPhi4);
  EXPECT_EQ(tools("functools[{{ calls }}]"), Tools::kPhi4);
  EXPECT_EQ(tools("<|tool|>{{ message.tools }}<|/tool|>"), Tools::kPhi4);
  EXPECT_EQ(tools(">>>all\n"), Tools::kFunctionaryV3);
  EXPECT_EQ(tools("[func_name1(params_name1=params_value1)]"), Tools::kLlama3Pythonic);
  EXPECT_EQ(tools("<start_function_call>call:"), Tools::kGemma);
  EXPECT_EQ(thoughts("{{ message.content }}"), Thoughts::kNone);
  EXPECT_EQ(thoughts("Here is my thought process:"), Thoughts::kGranite);
}

TEST(ReplyDetection, OfTheTemplatesOfTheData) {
  const char* data = std::getenv("COXSWAIN_DATA");  // NOLINT(concurrency-mt-unsafe)
  const std::filesystem::path folder =
      std::filesystem::path(data == nullptr ? "" : data) / "chat-templates/templates";
  if (data == nullptr || !std::filesystem::is_directory(folder))
    GTEST_SKIP() << "COXSWAIN_DATA has no chat-templates/templates";
  // All that speak of calls or thoughts.
  std::map<std::string, std::pair<std::string_view, std::string_view>, std::less<>> expected = {
      {"Bielik-11B-v3.0-Instruct", {"hermes", "think"}},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", {"cohere", "cohere"}},
      {"GLM-4.6", {"glm45", "think"}},
      {"HuggingFaceTB-SmolLM3-3B", {"none", "think"}},
      {"MiMo-VL", {"hermes", "none"}},
      {"MiniCPMV4_6", {"qwen3_coder", "think"}},
      {"Mistral-Small-3.2-24B-Instruct-2506", {"mistral_args", "none"}},
      {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {"qwen3_coder", "think"}},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", {"hermes", "none"}},
      {"Qwen-QwQ-32B", {"hermes", "think"}},
      {"Qwen-Qwen2.5-7B-Instruct", {"hermes", "none"}},
      {"Qwen-Qwen3-0.6B", {"hermes", "think"}},
      {"Qwen3.5-4B", {"qwen3_coder", "think"}},
      {"Qwen3_5", {"qwen3_coder", "think"}},
      {"Reka-Edge", {"hermes", "think"}},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", {"deepseek_v3", "think"}},
      {"deepseek-ai-DeepSeek-V3.1", {"deepseek_v31", "think"}},
      {"gemma-4-it", {"gemma", "gemma"}},
      {"google-gemma-4-31B-it", {"gemma", "gemma"}},
      {"gpt-oss-early", {"harmony", "harmony"}},
      {"ibm-granite-granite-3.3-2B-Instruct", {"granite", "granite33"}},
      {"llama-cpp-deepseek-r1", {"deepseek_v3", "think"}},
      {"llama-cpp-rwkv-world", {"none", "think"}},
      {"meetkai-functionary-medium-v3.1", {"functionary", "none"}},
      {"meta-llama-Llama-3.1-8B-Instruct", {"llama3_json", "none"}},
      {"meta-llama-Llama-3.2-3B-Instruct", {"llama3_json", "none"}},
      {"mistral-common-v13", {"mistral_args", "none"}},
      {"mistral-common-v15", {"mistral_args", "none"}},
      {"mistral-common-v15_image", {"mistral_args", "none"}},
      {"mistral-common-v15_think", {"mistral_args", "mistral"}},
      {"mistral-common-v3", {"mistral", "none"}},
      {"mistral-common-v3_spm", {"mistral", "none"}},
      {"mistral-common-v7", {"mistral", "none"}},
      {"mistral-common-v7_image", {"mistral", "none"}},
      {"mistralai-Mistral-Nemo-Instruct-2407", {"mistral", "none"}},
      {"moonshotai-Kimi-K2", {"kimi_k2", "none"}},
      {"ollama-gemma4_31b", {"gemma", "gemma"}},
      {"ollama-laguna_v8", {"glm45", "think"}},
      {"ollama-nemotron3nano", {"qwen3_coder", "think"}},
      {"openai-gpt-oss-120b", {"harmony", "harmony"}},
      {"qwen2.5-short-tools", {"hermes", "none"}},
      {"qwen3-added-think-handling", {"hermes", "think"}},
  };
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream file(entry.path());
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    const Formats formats = detected(source);
    const std::string name = entry.path().stem().string();
    const auto row = expected.find(name);
    const auto names = row == expected.end()
                           ? std::pair<std::string_view, std::string_view>{"none", "none"}
                           : row->second;
    EXPECT_EQ(name_of(formats.tools), names.first) << name;
    EXPECT_EQ(name_of(formats.reasoning), names.second) << name;
    if (row != expected.end()) expected.erase(row);
  }
  for (const auto& [name, formats] : expected) ADD_FAILURE() << "no template " << name;
}

// Prompts as the templates render them: the answer begins within thoughts, or it does not.
TEST(ReplyDetection, OfPromptsThatOpenThoughts) {
  const char* data = std::getenv("COXSWAIN_DATA");  // NOLINT(concurrency-mt-unsafe)
  const std::filesystem::path folder =
      std::filesystem::path(data == nullptr ? "" : data) / "chat-templates";
  if (data == nullptr || !std::filesystem::is_directory(folder / "expected"))
    GTEST_SKIP() << "COXSWAIN_DATA has no chat-templates/expected";
  std::set<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "expected")) {
    const std::string name = entry.path().stem().string();
    std::ifstream file(folder / "templates" / (name + ".jinja"));
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    const ReasoningFormat format = detected(source).reasoning;
    const auto renderings = json::parse_file(entry.path().string(), 16U << 20);
    ASSERT_TRUE(renderings.ok()) << name;
    for (const json::Value& one : renderings->find("results")->as_array()) {
      if (one.find("case")->as_string() != "user_gen") continue;
      const json::Value* output = one.find("output");
      if (output != nullptr && opens_reasoning(format, output->as_string())) open.insert(name);
    }
  }
  const std::set<std::string> expected = {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
                                          "Qwen3.5-4B",
                                          "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
                                          "llama-cpp-deepseek-r1",
                                          "ollama-nemotron3nano"};
  EXPECT_EQ(open, expected);
}

}  // namespace
}  // namespace coxswain::reply
