#include "options/row_texts.h"

#include "options/options.h"

namespace coxswain::options {
namespace {

// docs/options.md and the message about a wrong value have all of a long list.
std::string first_choices(std::string_view choices) {
  constexpr std::size_t kShownMax = 30;
  if (choices.size() <= kShownMax) return std::string(choices);
  const std::string_view shown = choices.substr(0, kShownMax);
  return std::string(shown.substr(0, shown.rfind('|') + 1)) + "...";
}

// "[default: 128] [requests] [env: NAME]"
std::string attributes(const OptionSpec& spec, Binary binary) {
  std::string out;
  const auto add = [&](std::string_view key, std::string_view value) {
    if (value.empty()) return;
    if (!out.empty()) out += ' ';
    out += "[" + std::string(key) + std::string(value) + "]";
  };
  add("default: ", spec.default_value);
  add("", spec.unit);
  if (!spec.name.empty()) add("env: ", spec.env_in(binary));
  return out;
}

}  // namespace

std::string value_word(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::kFlag:
      return "";
    case OptionType::kBool:
      return spec.choices.empty() ? "true|false" : std::string(spec.choices);
    case OptionType::kChoice:
      return first_choices(spec.choices);
    case OptionType::kString:
    case OptionType::kList:
      return "TEXT";
    case OptionType::kU64:
      return "N";
    case OptionType::kU64List:
      return "N,...";
    case OptionType::kF64:
      return "X";
  }
  return "";
}

std::string status_note(const OptionSpec& spec) {
  const std::string reason = spec.reason.empty() ? "" : ": " + std::string(spec.reason);
  switch (spec.status) {
    case OptionStatus::kLive:
      return "";
    case OptionStatus::kRefused:
      return "Not supported yet" + reason;
    case OptionStatus::kNoop:
      return "Accepted without effect" + reason;
  }
  return "";
}

std::string whole_text(const OptionSpec& spec, Binary binary) {
  std::string text = std::string(spec.help) + ".";
  if (const std::string note = status_note(spec); !note.empty()) text += " " + note + ".";
  if (const std::string more = attributes(spec, binary); !more.empty()) text += " " + more;
  return text;
}

std::string usage_text(Binary binary) {
  const std::string name(program_name(binary));
  switch (binary) {
    case Binary::kLauncher:
      return "Usage: " + name + " --model-id MODEL [options]\n\nExamples:\n  " + name +
             " --model-id demo\n  " + name +
             " --model-id /models/Qwen2.5-0.5B-Instruct --port 8080 --quantize int8\n";
    case Binary::kRouter:
      return "Usage: " + name + " --tokenizer-name FOLDER [options]\n       " + name +
             " print-schema [options]\n\nExamples:\n  " + name +
             " --tokenizer-name models/demo --master-shard-uds-path /tmp/shard-0\n  " + name +
             " print-schema\n";
    case Binary::kServer:
      return "Usage: " + name + " serve MODEL_ID [options]\n\nExample:\n  " + name +
             " serve models/demo --uds-path /tmp/shard\n";
    case Binary::kBenchmark:
      return "Usage: " + name +
             " --tokenizer-name MODEL [options]\n\nTimes batches on the shard behind a socket and "
             "prints "
             "Markdown tables: parameters,\nlatencies, throughputs. No router may use the shard "
             "meanwhile.\n\nExample:\n  " +
             name + " --tokenizer-name models/demo -b 1 -b 32 -m /tmp/shard-0\n";
  }
  return "";
}

}  // namespace coxswain::options
