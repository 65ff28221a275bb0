#include <array>

#include "options/options.h"
#include "options/words.h"

namespace coxswain::options {
namespace {

constexpr std::size_t kLineWidth = 100;
constexpr std::size_t kIndent = 6;

constexpr std::array kBinaries{Binary::kLauncher, Binary::kRouter, Binary::kServer};

std::string value_word(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::kFlag:
      return "";
    case OptionType::kBool:
      return "true|false";
    case OptionType::kChoice:
      return std::string(spec.choices);
    case OptionType::kString:
    case OptionType::kList:
      return "TEXT";
    case OptionType::kU64:
      return "N";
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

// "[default: 128] [requests] [env: NAME]"
std::string attributes(const OptionSpec& spec) {
  std::string out;
  const auto add = [&](std::string_view key, std::string_view value) {
    if (value.empty()) return;
    if (!out.empty()) out += ' ';
    out += "[" + std::string(key) + std::string(value) + "]";
  };
  add("default: ", spec.default_value);
  add("", spec.unit);
  if (!spec.name.empty()) add("env: ", spec.env);
  return out;
}

void append_wrapped(std::string& out, const std::string& text) {
  std::size_t column = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t space = std::min(text.find(' ', at), text.size());
    const std::size_t length = space - at;
    if (column == 0) {
      out.append(kIndent, ' ');
      column = kIndent;
    } else if (column + 1 + length > kLineWidth) {
      out += '\n';
      out.append(kIndent, ' ');
      column = kIndent;
    } else {
      out += ' ';
      ++column;
    }
    out.append(text, at, length);
    column += length;
    at = space + 1;
  }
  if (column != 0) out += '\n';
}

void append_option(std::string& out, const OptionSpec& spec) {
  out += "  ";
  if (spec.name.empty()) {
    out += std::string(spec.env) + "=";
  } else {
    if (spec.short_name != 0) out += std::string("-") + spec.short_name + ", ";
    out += "--" + std::string(spec.name);
    if (spec.type != OptionType::kFlag) out += ' ';
  }
  out += value_word(spec) + "\n";
  std::string text = std::string(spec.help) + ".";
  if (const std::string note = status_note(spec); !note.empty()) text += " " + note + ".";
  if (const std::string more = attributes(spec); !more.empty()) text += " " + more;
  append_wrapped(out, text);
}

std::string escaped_cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string code_cell(std::string_view text) {
  return text.empty() ? "" : "`" + escaped_cell(text) + "`";
}

std::string binaries_cell(const OptionSpec& spec) {
  constexpr std::array<std::string_view, 3> kShortNames{"launcher", "router", "server"};
  std::string out;
  for (const Binary binary : kBinaries) {
    if ((spec.binaries & bit_of(binary)) == 0) continue;
    if (!out.empty()) out += ", ";
    out += kShortNames[static_cast<std::size_t>(binary)];
  }
  return out;
}

std::string values_cell(const OptionSpec& spec) {
  if (!spec.choices.empty()) {
    std::string out;
    for (const std::string_view word : split_words(spec.choices)) {
      if (!out.empty()) out += ", ";
      out += "`" + std::string(word) + "`";
    }
    return out;
  }
  switch (spec.type) {
    case OptionType::kFlag:
      return "flag";
    case OptionType::kBool:
      return "`true`, `false`";
    case OptionType::kList:
      return "text, repeatable";
    case OptionType::kF64:
      return "number";
    case OptionType::kU64: {
      std::string out = spec.unit.empty() ? "whole number" : std::string(spec.unit);
      if (spec.min != 0 || spec.max != std::numeric_limits<std::uint64_t>::max()) {
        out += ", " + std::to_string(spec.min) + " to " + std::to_string(spec.max);
      }
      return out;
    }
    case OptionType::kString:
    case OptionType::kChoice:
      break;
  }
  return "text";
}

void append_row(std::string& out, const OptionSpec& spec) {
  std::string name = spec.name.empty() ? "" : "`--" + std::string(spec.name) + "`";
  if (spec.short_name != 0) name += ", `-" + std::string(1, spec.short_name) + "`";
  std::string help = std::string(spec.help) + ".";
  if (const std::string note = status_note(spec); !note.empty()) help += " *" + note + ".*";
  if (!spec.refused_choices.empty()) {
    help += " *Not supported yet: ";
    bool first = true;
    for (const std::string_view word : split_words(spec.refused_choices)) {
      if (!first) help += ", ";
      help += word;
      first = false;
    }
    help += ".*";
  }
  if (spec.ours) help += " (Not in TGI.)";
  out += "| " + name + " | " + code_cell(spec.env) + " | " + values_cell(spec) + " | " +
         code_cell(spec.default_value) + " | " + binaries_cell(spec) + " | " + escaped_cell(help) +
         " |\n";
}

}  // namespace

std::string_view title_of(Group group) {
  switch (group) {
    case Group::kModel:
      return "Model";
    case Group::kLimits:
      return "Limits of requests";
    case Group::kBatching:
      return "Batching";
    case Group::kMemory:
      return "Memory and threads";
    case Group::kHttp:
      return "HTTP";
    case Group::kSecurity:
      return "Security";
    case Group::kLogs:
      return "Logs and traces";
    case Group::kProcesses:
      return "Processes";
  }
  return "";
}

std::string help_text(Binary binary) {
  std::string out = "Usage: " + std::string(program_name(binary)) +
                    (binary == Binary::kServer ? " serve MODEL_ID [options]\n" : " [options]\n");
  for (std::size_t i = 0; i < kGroupCount; ++i) {
    const auto group = static_cast<Group>(i);
    bool titled = false;
    for (const OptionSpec& spec : option_table()) {
      if (spec.group != group || (spec.binaries & bit_of(binary)) == 0) continue;
      if (binary == Binary::kServer && spec.name == "model-id") continue;
      if (!titled) out += "\n" + std::string(title_of(group)) + ":\n";
      titled = true;
      append_option(out, spec);
    }
  }
  out +=
      "\nThe command line beats the environment; an empty variable counts as unset.\n"
      "  -h, --help       Print this text\n"
      "  -V, --version    Print the version\n";
  return out;
}

std::string reference_page() {
  std::string out =
      "# Options\n\n"
      "This page is written from the option table (`src/options/options_table.cc`); a test fails "
      "when\n"
      "it is stale. `COXSWAIN_UPDATE_DOCS=1 coxswain_options_test` writes it again.\n\n"
      "The command line beats the environment. An empty variable counts as unset. Variables of "
      "flags\n"
      "are exactly `true` or `false`. Variables that are not listed for a binary are never read by "
      "it.\n"
      "A usage error prints one line and ends with exit code 2. Options that are not supported yet "
      "are\n"
      "refused as soon as they are set to a value that would change something; options without "
      "effect\n"
      "give a warning that says why. `text-generation-launcher` passes what it was given to the\n"
      "processes that it starts, the key by the environment only.\n";
  for (std::size_t i = 0; i < kGroupCount; ++i) {
    const auto group = static_cast<Group>(i);
    out += "\n## " + std::string(title_of(group)) + "\n\n";
    out += "| Option | Variable | Values | Default | Programs | What it does |\n";
    out += "|---|---|---|---|---|---|\n";
    for (const OptionSpec& spec : option_table()) {
      if (spec.group == group) append_row(out, spec);
    }
  }
  return out;
}

}  // namespace coxswain::options
