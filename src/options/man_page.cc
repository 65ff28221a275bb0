#include "options/completions.h"
#include "options/options.h"
#include "options/row_texts.h"

namespace coxswain::options {
namespace {

// As roff prints it: dashes that can be copied, no requests.
std::string for_roff(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '-') {
      out += "\\-";
    } else if (c == '\\') {
      out += "\\e";
    } else {
      out += c;
    }
    begins = c == '\n';
  }
  return out;
}

std::string_view purpose_of(Binary binary) {
  switch (binary) {
    case Binary::kLauncher:
      return "serve a large language model";
    case Binary::kRouter:
      return "HTTP in front of shards that serve a model";
    case Binary::kServer:
      return "one shard of a served model";
    case Binary::kBenchmark:
      return "time batches on a shard";
  }
  return "";
}

std::string entry(const OptionSpec& spec, Binary binary) {
  std::string out = ".TP\n";
  const std::string value = value_word(spec);
  if (spec.name.empty()) {
    out += ".B " + for_roff(spec.env) + "\n";
  } else {
    std::string names = "--" + std::string(spec.name);
    if (spec.short_name != 0) names = std::string("-") + spec.short_name + ", " + names;
    out += "\\fB" + for_roff(names) + "\\fR" +
           (value.empty() ? "" : " \\fI" + for_roff(value) + "\\fR") + "\n";
  }
  return out + for_roff(whole_text(spec, binary)) + "\n";
}

}  // namespace

std::string man_page(Binary binary) {
  const std::string name(program_name(binary));
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  std::string out = ".TH " + upper + " 1 \"\" \"Coxswain\" \"User Commands\"\n.SH NAME\n" +
                    for_roff(name) + " \\- " + std::string(purpose_of(binary)) +
                    "\n.SH SYNOPSIS\n.nf\n" + for_roff(usage_text(binary)) + ".fi\n";
  for (std::size_t i = 0; i < kGroupCount; ++i) {
    const auto group = static_cast<Group>(i);
    std::string entries;
    for (const OptionSpec& spec : option_table()) {
      const bool is_word = binary == Binary::kServer && spec.name == "model-id";
      if (spec.group == group && spec.is_in(binary) && !is_word) entries += entry(spec, binary);
    }
    if (!entries.empty()) out += ".SH " + std::string(title_of(group)) + "\n" + entries;
  }
  return out +
         ".SH ENVIRONMENT\nThe command line beats the environment, which beats the file of "
         "\\fB\\-\\-config\\fR. An empty variable counts as unset.\n.SH EXIT STATUS\n"
         "0: it was asked to end, 1: it cannot start, 2: usage, 3: the model cannot be served, 4: "
         "a "
         "process died again and again.\n";
}

}  // namespace coxswain::options
