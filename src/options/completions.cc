#include "options/completions.h"

#include <algorithm>
#include <array>
#include <vector>

#include "options/options.h"
#include "options/words.h"

namespace coxswain::options {
namespace {

// First words: of router and server, of coxswain, and of two of coxswain's.
constexpr std::string_view kRouterVerbs = "print-schema";
constexpr std::string_view kServerVerbs = "serve download-weights quantize";
constexpr std::string_view kVerbs =
    "chat completions doctor fleet migrate plan pull quantize serve";
constexpr std::string_view kFleetVerbs = "import top";
constexpr std::string_view kCompletionVerbs = "bash zsh fish man";

// Of coxswain, with the launcher's options behind them.
constexpr std::string_view kLauncherVerbs = "doctor|plan|serve";

bool takes_file(const OptionSpec& spec) {
  return spec.type == OptionType::kString || spec.type == OptionType::kList;
}

// Words to choose from, with spaces between them; empty if any value goes.
std::string choices_of(const OptionSpec& spec) {
  if (spec.type == OptionType::kBool && spec.choices.empty()) return "true false";
  std::string out(spec.choices);
  std::ranges::replace(out, '|', ' ');
  return out;
}

// The options on the command line of `binary`.
std::vector<OptionSpec> options_of(Binary binary) {
  std::vector<OptionSpec> out;
  for (const OptionSpec& spec : option_table()) {
    const bool is_word = binary == Binary::kServer && spec.name == "model-id";
    if (spec.is_in(binary) && !spec.name.empty() && !is_word) out.push_back(spec);
  }
  out.push_back({.name = "help",
                 .short_name = 'h',
                 .type = OptionType::kFlag,
                 .help = "Print the options that people use"});
  out.push_back({.name = "help-all", .type = OptionType::kFlag, .help = "Print all options"});
  out.push_back({.name = "version",
                 .short_name = 'V',
                 .type = OptionType::kFlag,
                 .help = "Print the version"});
  return out;
}

std::string function_of(Binary binary) {
  std::string out = "_" + std::string(program_name(binary));
  std::ranges::replace(out, '-', '_');
  return out;
}

std::string first_sentence(std::string_view help) {
  return std::string(help.substr(0, help.find(';')));
}

// -- bash

std::string bash_function(Binary binary) {
  std::string names;
  std::string cases;
  std::string files;
  std::string others;
  for (const OptionSpec& spec : options_of(binary)) {
    const std::string name = "--" + std::string(spec.name);
    names += (names.empty() ? "" : " ") + name;
    if (spec.type == OptionType::kFlag) continue;
    std::string pattern = name;
    if (spec.short_name != 0) pattern += std::string("|-") + spec.short_name;
    const std::string choices = choices_of(spec);
    if (!choices.empty()) {
      cases.append("    ").append(pattern).append(") COMPREPLY=($(compgen -W \"").append(choices);
      cases += "\" -- \"$cur\")); return ;;\n";
    } else {
      std::string& patterns = takes_file(spec) ? files : others;
      patterns += (patterns.empty() ? "" : "|") + pattern;
    }
  }
  std::string out = function_of(binary) +
                    "() {\n"
                    "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                    "  [ \"$prev\" = \"=\" ] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                    "  [ \"$cur\" = \"=\" ] && cur=\n"
                    "  case $prev in\n" +
                    cases + "    " + files +
                    ") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n"
                    "    " +
                    others +
                    ") return ;;\n"
                    "  esac\n";
  if (binary == Binary::kServer) {
    out += "  [ \"$COMP_CWORD\" = 1 ] && { COMPREPLY=($(compgen -W \"" + std::string(kServerVerbs) +
           "\" -- \"$cur\")); return; }\n"
           "  [ \"$COMP_CWORD\" = 2 ] && { COMPREPLY=($(compgen -f -- \"$cur\")); return; }\n";
  }
  if (binary == Binary::kRouter) {
    out +=
        "  [ \"$COMP_CWORD\" = 1 ] && [ \"${cur#-}\" = \"$cur\" ] && { COMPREPLY=($(compgen -W \"" +
        std::string(kRouterVerbs) + "\" -- \"$cur\")); return; }\n";
  }
  return out + "  COMPREPLY=($(compgen -W \"" + names + "\" -- \"$cur\"))\n}\n";
}

std::string bash_script() {
  std::string out;
  for (const Binary binary : kBinaries) {
    out += bash_function(binary) + "complete -o filenames -F " + function_of(binary) + " " +
           std::string(program_name(binary)) + "\n";
  }
  const auto words = [](std::string_view list) {
    return "COMPREPLY=($(compgen -W \"" + std::string(list) + "\" -- \"$cur\"))";
  };
  return out +
         "_coxswain() {\n  local cur=${COMP_WORDS[COMP_CWORD]}\n"
         "  if [ \"$COMP_CWORD\" = 1 ]; then " +
         words(kVerbs) +
         "; return; fi\n"
         "  case ${COMP_WORDS[1]} in\n"
         "    " +
         std::string(kLauncherVerbs) + ") " + function_of(Binary::kLauncher) +
         " ;;\n"
         "    fleet) " +
         words(kFleetVerbs) +
         " ;;\n"
         "    completions) " +
         words(kCompletionVerbs) +
         " ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
         "  esac\n}\ncomplete -o filenames -F _coxswain coxswain\n";
}

// -- zsh

// In '...' of an _arguments specification.
std::string for_zsh(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string zsh_function(Binary binary) {
  std::string out = function_of(binary) + "() {\n  _arguments \\\n";
  for (const OptionSpec& spec : options_of(binary)) {
    const std::string help = "[" + for_zsh(first_sentence(spec.help)) + "]";
    const std::string choices = choices_of(spec);
    const std::string action = !choices.empty()   ? "(" + for_zsh(choices) + ")"
                               : takes_file(spec) ? "_files"
                                                  : " ";
    const bool is_flag = spec.type == OptionType::kFlag;
    const std::string repeats = spec.type == OptionType::kList ? "*" : "";
    const std::string value = is_flag ? "" : ":value:" + action;
    const auto add = [&](const std::string& name, std::string_view before_value) {
      out.append("    '").append(repeats).append(name).append(is_flag ? "" : before_value);
      out.append(help).append(value).append("' \\\n");
    };
    add("--" + std::string(spec.name), "=");
    if (spec.short_name != 0) add(std::string("-") + spec.short_name, "+");
  }
  if (binary == Binary::kRouter) out += "    '1:command:(" + std::string(kRouterVerbs) + ")' \\\n";
  if (binary == Binary::kServer)
    out += "    '1:command:(" + std::string(kServerVerbs) + ")' '2:model:_files' \\\n";
  return out + "    && return\n}\n";
}

std::string zsh_script() {
  std::string out =
      "#compdef text-generation-launcher text-generation-router text-generation-server "
      "text-generation-benchmark coxswain\n";
  for (const Binary binary : kBinaries) out += zsh_function(binary);
  return out +
         "_coxswain() {\n"
         "  if (( CURRENT == 2 )); then compadd " +
         std::string(kVerbs) +
         "; return; fi\n"
         "  case $words[2] in\n"
         "    " +
         std::string(kLauncherVerbs) + ") shift words; (( CURRENT-- )); " +
         function_of(Binary::kLauncher) +
         " ;;\n"
         "    fleet) compadd " +
         std::string(kFleetVerbs) +
         " ;;\n"
         "    completions) compadd " +
         std::string(kCompletionVerbs) +
         " ;;\n"
         "    *) _files ;;\n"
         "  esac\n}\n"
         "case $service in\n"
         "  text-generation-launcher) _text_generation_launcher \"$@\" ;;\n"
         "  text-generation-router) _text_generation_router \"$@\" ;;\n"
         "  text-generation-server) _text_generation_server \"$@\" ;;\n"
         "  text-generation-benchmark) _text_generation_benchmark \"$@\" ;;\n"
         "  coxswain) _coxswain \"$@\" ;;\n"
         "esac\n";
}

// -- fish

std::string for_fish(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return "'" + out + "'";
}

std::string fish_lines(Binary binary, const std::string& command) {
  std::string out;
  for (const OptionSpec& spec : options_of(binary)) {
    out += command + " -l " + std::string(spec.name);
    if (spec.short_name != 0) out += std::string(" -s ") + spec.short_name;
    const std::string choices = choices_of(spec);
    if (spec.type != OptionType::kFlag) out += takes_file(spec) ? " -r" : " -x";
    if (!choices.empty()) out += " -a " + for_fish(choices);
    out += " -d " + for_fish(first_sentence(spec.help)) + "\n";
  }
  return out;
}

std::string fish_script() {
  std::string out;
  for (const Binary binary : kBinaries)
    out += fish_lines(binary, "complete -c " + std::string(program_name(binary)));
  const auto words =
      [](const std::string& command, const std::string& when, std::string_view list) {
        return "complete -c " + command + " -n '" + when + "' -f -a " + for_fish(list) + "\n";
      };
  out += words("text-generation-router", "__fish_use_subcommand", kRouterVerbs);
  out += words("text-generation-server", "__fish_use_subcommand", kServerVerbs);
  out += words("coxswain", "__fish_use_subcommand", kVerbs);
  out += words("coxswain", "__fish_seen_subcommand_from fleet", kFleetVerbs);
  out += words("coxswain", "__fish_seen_subcommand_from completions", kCompletionVerbs);
  std::string verbs(kLauncherVerbs);
  std::ranges::replace(verbs, '|', ' ');
  return out + fish_lines(Binary::kLauncher,
                          "complete -c coxswain -n '__fish_seen_subcommand_from " + verbs + "'");
}

}  // namespace

std::optional<Shell> shell_of(std::string_view name) {
  if (name == "bash") return Shell::kBash;
  if (name == "zsh") return Shell::kZsh;
  if (name == "fish") return Shell::kFish;
  return std::nullopt;
}

std::string completion_script(Shell shell) {
  switch (shell) {
    case Shell::kBash:
      return bash_script();
    case Shell::kZsh:
      return zsh_script();
    case Shell::kFish:
      return fish_script();
  }
  return "";
}

}  // namespace coxswain::options
