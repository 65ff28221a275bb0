#include <array>

#include "options/options.h"
#include "options/row_texts.h"
#include "options/words.h"

namespace coxswain::options {
namespace {

constexpr std::size_t kLineWidth = 100;
constexpr std::size_t kIndent = 6;
constexpr std::size_t kTextColumn = 38;  // of --help
constexpr std::size_t kPageWidth = 118;  // of docs/options.md

// Words of `text` in lines of at most `width` columns; `first` and `rest` begin the lines.
void append_wrapped(std::string& out,
                    std::string_view text,
                    std::size_t width,
                    std::string_view first,
                    std::string_view rest) {
  if (text.empty()) return;
  std::size_t column = first.size();
  out += first;
  bool begins = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::min(text.find(' ', at), text.size()) - at;
    if (!begins && column + 1 + length > width) {
      out.append("\n").append(rest);
      column = rest.size();
    } else if (!begins) {
      out += ' ';
      ++column;
    }
    out.append(text, at, length);
    column += length;
    at += length + 1;
    begins = false;
  }
  out += '\n';
}

// "  -p, --port N"
std::string left_side(const OptionSpec& spec) {
  std::string out = "  ";
  if (spec.name.empty()) {
    out += std::string(spec.env) + "=";
  } else {
    if (spec.short_name != 0) out += std::string("-") + spec.short_name + ", ";
    out += "--" + std::string(spec.name);
    if (spec.type != OptionType::kFlag) out += ' ';
  }
  return out + value_word(spec);
}

// Name and text side by side.
void append_common(std::string& out, const OptionSpec& spec) {
  std::string left = left_side(spec);
  const std::string indent(kTextColumn, ' ');
  if (left.size() + 1 > kTextColumn) {
    out += left + "\n";
    left = indent;
  } else {
    left.append(kTextColumn - left.size(), ' ');
  }
  std::string text(spec.help);
  if (!spec.default_value.empty()) text += " [default: " + std::string(spec.default_value) + "]";
  append_wrapped(out, text, kLineWidth, left, indent);
}

void append_option(std::string& out, const OptionSpec& spec, Binary binary) {
  out += left_side(spec) + "\n";
  const std::string indent(kIndent, ' ');
  append_wrapped(out, whole_text(spec, binary), kLineWidth, indent, indent);
}

std::string as_code(std::string_view text) {
  return "`" + std::string(text) + "`";
}

std::string programs_text(BinarySet binaries) {
  constexpr std::array<std::string_view, 4> kShortNames{
      "launcher", "router", "server", "benchmark"};
  std::string out;
  for (const Binary binary : kBinaries) {
    if ((binaries & bit_of(binary)) == 0) continue;
    if (!out.empty()) out += ", ";
    out += kShortNames[static_cast<std::size_t>(binary)];
  }
  return out;
}

std::string values_text(const OptionSpec& spec) {
  if (!spec.choices.empty()) {
    std::string out;
    for (const std::string_view word : split_words(spec.choices)) {
      if (!out.empty()) out += ", ";
      out += as_code(word);
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
    case OptionType::kU64:
    case OptionType::kU64List: {
      std::string out = spec.unit.empty() ? "whole number" : std::string(spec.unit);
      if (spec.min != 0 || spec.max != std::numeric_limits<std::uint64_t>::max()) {
        out += ", " + std::to_string(spec.min) + " to " + std::to_string(spec.max);
      }
      if (spec.type == OptionType::kU64List)
        out += ", one or more with commas between them, or repeatable";
      return out;
    }
    case OptionType::kString:
    case OptionType::kChoice:
      break;
  }
  return "text";
}

// `--port`, `-p`; `PORT`; whole number, 0 to 65535; default `3000`; launcher, router
std::string reference_line(const OptionSpec& spec) {
  std::string out;
  const auto add = [&](const std::string& text) {
    if (!out.empty()) out += "; ";
    out += text;
  };
  if (!spec.name.empty()) add(as_code("--" + std::string(spec.name)));
  if (spec.short_name != 0) out += ", " + as_code("-" + std::string(1, spec.short_name));
  const BinarySet readers = spec.env_binaries == 0 ? spec.binaries : spec.env_binaries;
  if (!spec.env.empty()) {
    const bool by_all = readers == spec.binaries;
    add(as_code(spec.env) + (by_all ? "" : " (" + programs_text(readers) + " only)"));
  }
  add(values_text(spec));
  if (!spec.default_value.empty()) add("default " + as_code(spec.default_value));
  add(programs_text(spec.binaries));
  return out;
}

void append_entry(std::string& out, const OptionSpec& spec) {
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
  append_wrapped(out, reference_line(spec) + "\\", kPageWidth, "- ", "  ");
  append_wrapped(out, help, kPageWidth, "  ", "  ");
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
    case Group::kFleet:
      return "Replicas that come and go";
    case Group::kBenchmark:
      return "text-generation-benchmark";
  }
  return "";
}

std::string help_text(Binary binary, HelpSize size) {
  const bool all = size == HelpSize::kFull;
  std::string out = usage_text(binary);
  if (!all) out += "\nOptions that people use (--help-all shows all of them):\n";
  for (std::size_t i = 0; i < kGroupCount; ++i) {
    const auto group = static_cast<Group>(i);
    bool titled = !all;
    for (const OptionSpec& spec : option_table()) {
      if (spec.group != group || !spec.is_in(binary)) continue;
      if (binary == Binary::kServer && spec.name == "model-id") continue;
      if (!all && !spec.common) continue;
      if (!titled) out += "\n" + std::string(title_of(group)) + ":\n";
      titled = true;
      if (all) {
        append_option(out, spec, binary);
      } else {
        append_common(out, spec);
      }
    }
  }
  out +=
      "\nEach option has an environment variable too, --port for example PORT (--help-all names "
      "them).\nThe command line beats the environment, which beats the file of --config.\n"
      "  -h, --help       Print the options that people use\n"
      "      --help-all   Print all options\n"
      "  -V, --version    Print the version\n";
  return out;
}

std::string reference_page() {
  std::string out = R"(# Options

This page is written from the option table (`src/options/rows/`); a test fails when it is stale.
`COXSWAIN_UPDATE_DOCS=1 coxswain_options_test` writes it again.

Each entry names the option, its environment variable, its values, its default and the programs that take it.

`--help` shows the options that people use, `--help-all` all of them.

The command line beats the environment, which beats the file of `--config`: lines of names as they stand here, without
dashes before them, and values (docs/config.md). An empty variable counts as unset. Variables of flags are exactly
`true` or `false`. Options in bytes take units: `2MB` is 2,000,000 bytes, `4GiB` 4,294,967,296. Variables that are not
listed for a program are never read by it. A usage error prints one line, which names the option that was probably
meant, and ends with exit code 2. Options that are not supported yet are refused as soon as they are set to a value
that would change something; options without effect give a warning that says why. `text-generation-launcher` passes
what it was given to the processes that it starts, the key by the environment only.
)";
  for (std::size_t i = 0; i < kGroupCount; ++i) {
    const auto group = static_cast<Group>(i);
    out += "\n## " + std::string(title_of(group)) + "\n\n";
    for (const OptionSpec& spec : option_table()) {
      if (spec.group == group) append_entry(out, spec);
    }
  }
  return out;
}

}  // namespace coxswain::options
