#include <algorithm>
#include <string_view>

#include "base/utf8.h"
#include "options/config_file.h"
#include "options/options.h"
#include "options/words.h"

namespace coxswain::options {
namespace {

std::string value_text(const OptionSpec& spec, const std::string& text) {
  const bool is_text = spec.type == OptionType::kString || spec.type == OptionType::kList ||
                       spec.type == OptionType::kChoice;
  return is_text ? config_scalar(text) : text;
}

std::string origin_of(const OptionSpec& spec, const OptionValues& values) {
  switch (values.source(spec.key())) {
    case Source::kUnset:
      return "not given";
    case Source::kDefault:
      return "default";
    case Source::kFile:
      return values.place(spec.key());
    case Source::kEnvironment:
      return std::string(spec.env);
    case Source::kCommandLine:
      return "command line";
  }
  return "";
}

std::string entry_text(const OptionSpec& spec, const OptionValues& values) {
  const std::string name(spec.key());
  const std::vector<std::string>& texts = values.texts(name);
  const std::string origin = "  # " + origin_of(spec, values) + "\n";
  if (texts.empty()) return "# " + name + ":" + origin;
  if (spec.secret) return "# " + name + ": (hidden)" + origin;
  if (!std::ranges::all_of(texts, [](const std::string& text) { return base::is_utf8(text); }))
    return "# " + name + ": (not UTF-8)" + origin;
  std::string out = values.source(name) == Source::kDefault ? "# " : "";
  if (spec.type != OptionType::kList)
    return out + name + ": " + value_text(spec, texts.front()) + origin;
  out += name + ":" + origin;
  for (const std::string& text : texts) out += "  - " + value_text(spec, text) + "\n";
  return out;
}

}  // namespace

std::string config_text(const OptionValues& values, const std::vector<std::string>& warnings) {
  std::string out = "# What " + std::string(program_name(values.binary())) +
                    " takes, as --config reads it back; comments are what holds anyway.\n";
  for (std::size_t i = 0; i < kGroupCount; ++i) {
    const auto group = static_cast<Group>(i);
    out += "\n# " + std::string(title_of(group)) + "\n";
    for (const OptionSpec& spec : option_table()) {
      const bool is_own = spec.name == "config" || spec.name == "print-config";
      if (spec.group != group || is_own || !spec.is_in(values.binary())) continue;
      // What changes nothing needs no line, unless somebody gave it.
      const bool is_given = values.source(spec.key()) >= Source::kFile;
      if (spec.status == OptionStatus::kLive || is_given) out += entry_text(spec, values);
    }
  }
  for (const std::string& warning : warnings) out += "# warning: " + warning + "\n";
  return out;
}

}  // namespace coxswain::options
