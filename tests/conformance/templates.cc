#include "conformance/templates.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "chat/chat_template.h"
#include "conformance/golden_values.h"
#include "json/json.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::conformance {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFileBytesMax = std::size_t{256} << 20;
constexpr std::chrono::seconds kExpectedClock{
    1721997296};  // 2024-07-26 12:34:56 UTC, the reference's
constexpr std::chrono::seconds kCollectedClock{1752148800};  // 2025-07-10 12:00:00 UTC

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const json::Value& member(const json::Value& object, std::string_view key) {
  static const json::Value null;
  const json::Value* value = object.find(key);
  return value == nullptr ? null : *value;
}

// A conversation of the reference as the input of a template. Special tokens and kwargs become variables.
chat::RenderInput input_of(const json::Value& conversation, const json::Value& special_tokens) {
  chat::RenderInput input;
  input.messages = member(conversation, "messages");
  input.tools = member(conversation, "tools");
  input.documents = member(conversation, "documents");
  const json::Value& generation = member(conversation, "add_generation_prompt");
  input.add_generation_prompt =
      generation.is_bool() ? std::optional(generation.as_bool()) : std::nullopt;
  json::Object extra;
  for (const json::Value* source : {&special_tokens, &member(conversation, "kwargs")}) {
    if (!source->is_object()) continue;
    for (const auto& [name, value] : source->as_object()) extra.set(name, value);
  }
  input.extra = std::move(extra);
  input.now = std::chrono::system_clock::time_point(kExpectedClock);
  return input;
}

// Empty if `got` is what the reference gave for this case, otherwise the first difference.
std::string compare(const json::Value& expected, const Result<chat::Rendered>& got) {
  const json::Value& output = member(expected, "output");
  if (output.is_string()) {
    if (!got.ok()) return "error: " + got.status().message();
    if (got->text == output.as_string()) return {};
    std::size_t at = 0;
    while (at < got->text.size() && at < output.as_string().size() &&
           got->text[at] == output.as_string()[at])
      ++at;
    return "differs at byte " + std::to_string(at) + ": got \"" + got->text.substr(at, 40) +
           "\", wanted \"" + output.as_string().substr(at, 40) + "\"";
  }
  const std::string error = golden_string(expected, "error");
  if (error == "SecurityError" || error == "RecursionError") return {};
  if (got.ok()) return "rendered, but the reference says " + error;
  if (error == "raise_exception" && got.status().message() != golden_string(expected, "message")) {
    return "raised \"" + got.status().message() + "\" instead of \"" +
           golden_string(expected, "message") + "\"";
  }
  return {};
}

using Conversations = std::map<std::string, json::Value>;

Conversations read_conversations(const fs::path& folder) {
  Conversations out;
  const auto document = json::parse_file((folder / "conversations.json").string(), kFileBytesMax);
  if (!document.ok() || !document->is_array()) return out;
  for (const json::Value& conversation : document->as_array())
    out[golden_string(conversation, "id")] = conversation;
  return out;
}

void check_template(const fs::path& folder,
                    const std::string& file,
                    const Conversations& conversations,
                    ConformanceReport& report) {
  const auto document = json::parse_file((folder / "expected" / file).string(), kFileBytesMax);
  if (!document.ok()) return report.fail(file, document.status().message());
  const std::string name = golden_string(*document, "template");
  if (!report.wants(name)) return;
  const auto compiled =
      chat::ChatTemplate::compile(read_file(folder / "templates" / (name + ".jinja")));
  std::size_t n = 0;
  for (const json::Value& expected : member(*document, "results").as_array()) {
    const std::string id = golden_string(expected, "case");
    const auto conversation = conversations.find(id);
    if (conversation == conversations.end()) return report.fail(name, "no conversation " + id);
    const auto got =
        compiled.ok()
            ? compiled->render(input_of(conversation->second, member(*document, "special_tokens")))
            : Result<chat::Rendered>(compiled.status());
    if (std::string difference = compare(expected, got); !difference.empty())
      return report.fail(name, difference.insert(0, id + ": "));
    ++n;
  }
  report.pass(name, std::to_string(n) + " conversations");
}

void check_units(const fs::path& path, ConformanceReport& report) {
  const auto document = json::parse_file(path.string(), kFileBytesMax);
  if (!document.ok()) return;
  for (const json::Value& unit : document->as_array()) {
    const std::string name = "unit-" + golden_string(unit, "name");
    if (!report.wants(name)) continue;
    const json::Value& expected = member(unit, "python_hf");
    if (member(unit, "context_has_function").is_bool() &&
        member(unit, "context_has_function").as_bool()) {
      report.skip(name, "its variables hold JavaScript functions");
      continue;
    }
    chat::RenderInput input;
    input.messages = json::Array{};
    input.add_generation_prompt = std::nullopt;
    input.extra = member(unit, "context");
    const auto compiled = chat::ChatTemplate::compile(golden_string(unit, "template"));
    const auto got =
        compiled.ok() ? compiled->render(input) : Result<chat::Rendered>(compiled.status());
    json::Object wanted;
    if (expected.is_string())
      wanted.set("output", expected);
    else
      wanted.set("error", "error");
    const std::string difference = compare(wanted, got);
    difference.empty() ? report.pass(name, "") : report.fail(name, difference);
  }
}

void check_collected(const fs::path& path, ConformanceReport& report) {
  const auto document = json::parse_file(path.string(), kFileBytesMax);
  if (!document.ok()) return;
  for (const json::Value& unit : document->as_array()) {
    const std::string name =
        "conversation-" + golden_string(unit, "group") + "-" + golden_string(unit, "name");
    if (!report.wants(name)) continue;
    if (const json::Value& agrees = member(unit, "python_jinja2_agrees");
        !agrees.is_bool() || !agrees.as_bool()) {
      report.skip(name, "Python renders it otherwise than its source says");
      continue;
    }
    const json::Value& data = member(unit, "data");
    chat::RenderInput input = input_of(data, json::Value());
    input.now = std::chrono::system_clock::time_point(kCollectedClock);
    json::Object extra;
    for (const auto& [key, value] : data.as_object()) {
      if (key != "messages" && key != "tools" && key != "documents" &&
          key != "add_generation_prompt")
        extra.set(key, value);
    }
    input.extra = std::move(extra);
    const auto compiled = chat::ChatTemplate::compile(golden_string(unit, "chat_template"));
    const auto got =
        compiled.ok() ? compiled->render(input) : Result<chat::Rendered>(compiled.status());
    json::Object wanted;
    wanted.set("output", member(unit, "target"));
    const std::string difference = compare(wanted, got);
    difference.empty() ? report.pass(name, "") : report.fail(name, difference);
  }
}

// Renders and encodes; the ids are the reference's.
void check_ids(const ConformanceOptions& options,
               const fs::path& folder,
               const Conversations& conversations,
               ConformanceReport& report) {
  const auto document = json::parse_file((folder / "end_to_end_ids.json").string(), kFileBytesMax);
  if (!document.ok()) return;
  for (const json::Value& entry : document->as_array()) {
    const std::string template_name = golden_string(entry, "template");
    const std::string name = "ids-" + template_name;
    if (!report.wants(name)) continue;
    const auto tokenizer =
        tokenizer::Tokenizer::load(fs::path(options.data_dir) / "tokenizers" /
                                   golden_string(entry, "tokenizer") / "tokenizer.json");
    const auto compiled =
        chat::ChatTemplate::compile(read_file(folder / "templates" / (template_name + ".jinja")));
    const auto specials =
        json::parse_file((folder / "expected" / (template_name + ".json")).string(), kFileBytesMax);
    if (!tokenizer.ok() || !compiled.ok() || !specials.ok()) {
      report.fail(name,
                  tokenizer.ok() ? compiled.status().message() : tokenizer.status().message());
      continue;
    }
    std::string difference;
    std::size_t n = 0;
    for (const json::Value& expected : member(entry, "cases").as_array()) {
      const auto conversation = conversations.find(golden_string(expected, "case"));
      if (conversation == conversations.end()) continue;
      const auto got =
          compiled->render(input_of(conversation->second, member(*specials, "special_tokens")));
      if (!got.ok()) {
        difference = got.status().message();
        break;
      }
      const auto encoded = (*tokenizer)->encode(got->text, {.add_special_tokens = false});
      if (!encoded.ok() || encoded->ids != golden_ids(expected, "ids")) {
        difference = conversation->first + ": ids differ";
        break;
      }
      ++n;
    }
    difference.empty() ? report.pass(name, std::to_string(n) + " conversations")
                       : report.fail(name, difference);
  }
}

}  // namespace

ConformanceCounts run_templates_conformance(const ConformanceOptions& options) {
  ConformanceReport report("templates", options);
  const fs::path folder = fs::path(options.data_dir) / "chat-templates";
  const Conversations conversations = read_conversations(folder);
  for (const std::string& file : conformance_cases(options, "chat-templates/expected"))
    check_template(folder, file, conversations, report);
  check_units(folder / "from-repos" / "huggingface_js_jinja_units.json", report);
  check_collected(folder / "from-repos" / "huggingface_js_e2e.json", report);
  check_ids(options, folder, conversations, report);
  return report.counts();
}

}  // namespace coxswain::conformance
