#include "options/command_line.h"

#include <algorithm>
#include <deque>
#include <string_view>

#include <CLI/CLI.hpp>

#include "options/nearest_option.h"
#include "options/words.h"

namespace coxswain::options {
namespace {

struct Declared {
  const OptionSpec* spec;
  CLI::Option* option;
  std::vector<std::string> texts;
};

std::string flag_names(const OptionSpec& spec) {
  std::string names = "--" + std::string(spec.name);
  if (spec.short_name != 0) names = std::string("-") + spec.short_name + "," + names;
  return names;
}

// CLI11 keeps references to `texts`, so the elements must not move.
void declare(CLI::App& app, Binary binary, std::deque<Declared>& declared) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.name.empty() || !spec.is_in(binary)) continue;
    Declared& entry = declared.emplace_back(Declared{&spec, nullptr, {}});
    if (spec.type == OptionType::kFlag) {
      entry.option = app.add_flag(flag_names(spec))->disable_flag_override();
    } else {
      entry.option = app.add_option(flag_names(spec), entry.texts)->allow_extra_args(false);
    }
    entry.option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

Status unknown_option(Binary binary, std::string_view word) {
  const std::string nearest = nearest_option(binary, word);
  return invalid_argument("unknown option `" + shown(word) + "`" +
                          (nearest.empty() ? "" : "; did you mean `" + nearest + "`?"));
}

Result<CommandLine> collect(Binary binary,
                            const CLI::App& app,
                            const std::deque<Declared>& declared) {
  CommandLine out;
  for (const Declared& entry : declared) {
    const OptionSpec& spec = *entry.spec;
    const std::size_t count = entry.option->count();
    if (count == 0) continue;
    if (count > 1 && spec.type != OptionType::kList && spec.type != OptionType::kU64List) {
      return invalid_argument("`--" + std::string(spec.name) + "` is given " +
                              std::to_string(count) + " times");
    }
    out.texts[std::string(spec.name)] =
        spec.type == OptionType::kFlag ? std::vector<std::string>{"true"} : entry.option->results();
  }
  for (const std::string& word : app.remaining()) {
    if (word.size() > 1 && word.front() == '-') {
      return unknown_option(binary, std::string_view(word).substr(0, word.find('=')));
    }
    out.words.push_back(word);
  }
  return out;
}

// CLI11 says "--port: 1 required TEXT missing" and "json-output was given a disallowed flag override".
std::string reworded(const std::string& message) {
  const std::size_t colon = message.find(": 1 required");
  if (colon != std::string::npos) return "`" + message.substr(0, colon) + "` needs a value";
  const std::size_t given = message.find(" was given a disallowed flag override");
  if (given != std::string::npos) return "`--" + message.substr(0, given) + "` takes no value";
  return message;
}

// The arguments behind the program's name. CLI11 reads `-p=3103` as the value "=3103", TGI's parser as 3103.
std::vector<std::string> arguments_of(Binary binary, int argc, const char* const* argv) {
  std::vector<std::string> out(argv + std::min(argc, 1), argv + argc);
  for (std::string& text : out) {
    if (text.size() < 3 || text[0] != '-' || text[2] != '=') continue;
    const bool is_option = std::ranges::any_of(option_table(), [&](const OptionSpec& spec) {
      return spec.is_in(binary) && spec.short_name == text[1] && spec.type != OptionType::kFlag;
    });
    if (is_option) text.erase(2, 1);
  }
  std::reverse(out.begin(), out.end());  // as CLI11 wants them
  return out;
}

}  // namespace

Result<CommandLine> split_command_line(Binary binary, int argc, const char* const* argv) {
  try {
    CLI::App app;
    app.set_help_flag();
    app.allow_extras();
    const CLI::Option* help = app.add_flag("-h,--help");
    const CLI::Option* help_all = app.add_flag("--help-all");
    const CLI::Option* version = app.add_flag("-V,--version");
    std::deque<Declared> declared;
    declare(app, binary, declared);
    app.parse(arguments_of(binary, argc, argv));
    if (help->count() > 0 || help_all->count() > 0 || version->count() > 0) {
      CommandLine out;
      out.help = help->count() > 0;
      out.help_all = help_all->count() > 0;
      out.version = version->count() > 0;
      return out;
    }
    return collect(binary, app, declared);
  } catch (const CLI::Error& error) {  // a missing value, a flag with a value
    return invalid_argument(reworded(error.what()));
  } catch (const std::exception& error) {
    return invalid_argument(std::string("the command line cannot be read: ") + error.what());
  }
}

}  // namespace coxswain::options
