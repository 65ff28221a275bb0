#include "migrate/migrate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <utility>

#include "base/shell_words.h"
#include "migrate/input.h"
#include "migrate/rows/common.h"
#include "migrate/rows/llama_server.h"
#include "migrate/rows/lmdeploy.h"
#include "migrate/rows/ollama.h"
#include "migrate/rows/triton.h"
#include "migrate/rows/vllm.h"
#include "migrate/turns.h"
#include "options/options.h"

namespace coxswain::migrate {
namespace {

using options::Binary;
using options::OptionSpec;
using options::OptionType;

// Where clients look for a server that was not told where to listen, if that is not where ours listens.
struct Address {
  std::string_view hostname;
  std::string_view port;
};

struct Table {
  std::string_view name;
  std::span<const Rule> rules;
  Address address;
};

const Table& table_of(Program program) {
  static constexpr std::array<Table, kProgramCount> kTables{
      Table{"tgi", kTgiRows, {}},
      Table{"vllm", kVllmRows, {"", "8000"}},
      Table{"llama-server", kLlamaServerRows, {"127.0.0.1", "8080"}},
      Table{"ollama", kOllamaRows, {"127.0.0.1", "11434"}},
      Table{"lmdeploy", kLmdeployRows, {"", "23333"}},
      Table{"triton", kTritonRows, {"", "8000"}},
  };
  return kTables[static_cast<std::size_t>(program)];
}

// One of `list`, which has '|' between its entries.
bool is_one_of(std::string_view list, std::string_view word) {
  return !list.empty() &&
         ("|" + std::string(list) + "|").find("|" + std::string(word) + "|") != std::string::npos;
}

// Long options are taken with underscores, too.
std::string with_dashes(std::string_view name) {
  std::string out(name);
  if (out.starts_with("--")) std::ranges::replace(out, '_', '-');
  return out;
}

const OptionSpec* launcher_option(std::string_view name) {
  for (const OptionSpec& spec : options::option_table()) {
    if (!spec.is_in(Binary::kLauncher)) continue;
    const bool is_short = spec.short_name != 0 && name == std::string("-") + spec.short_name;
    const bool is_long = !spec.name.empty() && name == "--" + std::string(spec.name);
    if (is_short || is_long || (!spec.env.empty() && name == spec.env)) return &spec;
  }
  return nullptr;
}

// Our options under their own names, as TGI has them.
const Rule* same_name(std::string_view name) {
  static const std::map<std::string_view, Rule> rules = [] {
    std::map<std::string_view, Rule> out;
    for (const OptionSpec& spec : options::option_table()) {
      if (!spec.is_in(Binary::kLauncher)) continue;
      const bool is_flag = spec.type == OptionType::kFlag;
      out[spec.key()] = {
          .theirs = spec.key(), .ours = spec.key(), .form = is_flag ? Form::kFlag : Form::kValue};
    }
    return out;
  }();
  const OptionSpec* spec = launcher_option(name);
  return spec == nullptr ? nullptr : &rules.at(spec->key());
}

const Rule* find_rule(Program program, std::string_view name) {
  const std::string dashed = with_dashes(name);
  for (const std::span<const Rule> rules :
       {table_of(program).rules, std::span<const Rule>(kCommonRows)}) {
    for (const Rule& rule : rules)
      if (is_one_of(rule.theirs, name) || is_one_of(rule.theirs, dashed)) return &rule;
  }
  if (program == Program::kTgi && name == kModelWord) return nullptr;
  return program == Program::kTgi ? same_name(name) : nullptr;
}

// What our parser says against one option or variable; empty if it takes it and it has an effect.
std::string refusal(const std::string& word, const options::Environment& environment) {
  const std::array<const char*, 2> argv{"", word.c_str()};
  const options::ParseResult parsed =
      options::parse(Binary::kLauncher, word.empty() ? 1 : 2, argv.data(), environment);
  if (!parsed.exit_code) return parsed.warnings.empty() ? "" : parsed.warnings.front();
  std::string message = parsed.output.substr(0, parsed.output.rfind(" (see "));
  if (message.starts_with("error: ")) message.erase(0, 7);
  return message;
}

class Migration {
 public:
  explicit Migration(Program program) {
    out_.from = program;
    out_.command.emplace_back(options::program_name(Binary::kLauncher));
  }

  void add(const Given& given) {
    const Rule* rule = find_rule(out_.from, given.name);
    if (rule == nullptr) {
      none(given, given.name == kModelWord ? "a word that is no option" : "not known here");
      return;
    }
    const std::string value = given.values.empty() ? "" : given.values.front();
    if (rule->neutral == kAlways || (!given.values.empty() && is_one_of(rule->neutral, value))) {
      out_.not_needed.push_back(given.text);
    } else {
      turn(*rule, given, value);
    }
  }

  Migrated take() && {
    const Address address = table_of(out_.from).address;
    if (!address.port.empty()) {
      for (const auto& [name, value] :
           {std::pair{"port", address.port}, std::pair{"hostname", address.hostname}})
        if (!value.empty() && !set_.contains(name)) put_option(name, std::string(value));
    }
    if (!set_.contains("model-id")) {
      put_option("model-id", "MODEL");
      out_.without_equivalent.push_back(
          {"MODEL", "put the model here: a folder, a GGUF file or org/name of a hub"});
    }
    return std::move(out_);
  }

 private:
  void none(const Given& given, std::string_view why) {
    out_.without_equivalent.push_back({given.text, std::string(why)});
  }

  void turn(const Rule& rule, const Given& given, const std::string& value) {
    switch (rule.turn) {
      case Turn::kCopy:
        if (rule.form == Form::kFlag) return put_flag(rule, given);
        return put(rule, given, rule.ours.empty() ? std::optional<std::string>() : value);
      case Turn::kWords:
        return put_word(rule, given, value);
      case Turn::kCount:
        return put(rule, given, count_of(value));
      case Turn::kGiB:
        return put(rule, given, bytes_of(value, 1073741824.0));
      case Turn::kMiB:
        return put(rule, given, bytes_of(value, 1048576.0));
      case Turn::kModel:
        return put(rule, given, model_of(value));
      case Turn::kEach:
        for (const std::string& part : given.values)
          for (const std::string& entry : entries_of(part)) put(rule, given, entry);
        return;
      case Turn::kFirst: {
        std::vector<std::string> all;
        for (const std::string& part : given.values)
          for (std::string& entry : entries_of(part)) all.push_back(std::move(entry));
        if (all.size() > 1)
          out_.without_equivalent.push_back(
              {given.name + ": all but the first", std::string(rule.why)});
        return put(rule, given, all.empty() ? std::optional<std::string>() : all.front());
      }
      case Turn::kAddress: {
        const auto [host, port] = host_and_port(value);
        if (!host.empty()) put({.ours = "hostname"}, given, host);
        if (!port.empty()) put({.ours = "port"}, given, port);
        return;
      }
      case Turn::kGuesses: {
        const auto guesses = guesses_of(value);
        if (!guesses) return none(given, rule.why);
        put({.ours = "speculate"}, given, guesses->n_tokens);
        if (!guesses->model.empty()) put({.ours = "speculative-model"}, given, guesses->model);
        return;
      }
    }
  }

  void put_flag(const Rule& rule, const Given& given) {
    const std::size_t equals = rule.ours.find('=');
    const bool is_variable = equals != std::string_view::npos;
    if (rule.ours.empty()) return none(given, rule.why);
    // Of a variable, `true` or `false`.
    const std::string value = is_variable            ? std::string(rule.ours.substr(equals + 1))
                              : given.values.empty() ? "true"
                                                     : given.values.front();
    put({.ours = rule.ours.substr(0, equals)}, given, value);
  }

  void put_word(const Rule& rule, const Given& given, const std::string& value) {
    std::string_view words = rule.words;
    while (!words.empty()) {
      const std::string_view word = words.substr(0, words.find('|'));
      words.remove_prefix(std::min(words.size(), word.size() + 1));
      const std::size_t equals = word.find('=');
      if (word.substr(0, equals) != value) continue;
      const std::string ours(word.substr(equals + 1));
      if (ours.empty()) {
        out_.not_needed.push_back(given.text);
      } else {
        put(rule, given, ours);
      }
      return;
    }
    none(given,
         rule.why.empty() ? "--" + std::string(rule.ours) + " has nothing like it"
                          : std::string(rule.why));
  }

  // `value`: empty if there is none with us.
  void put(const Rule& rule, const Given& given, const std::optional<std::string>& value) {
    const std::string name(rule.ours);
    if (!value) {
      return none(
          given,
          rule.why.empty() ? "--" + name + " does not take the value" : std::string(rule.why));
    }
    const OptionSpec* spec = options::find_option(Binary::kLauncher, name);
    const bool is_variable = spec == nullptr || spec->name.empty();
    const bool is_flag = spec != nullptr && spec->type == OptionType::kFlag;
    if (is_flag && *value == "false") return out_.not_needed.push_back(given.text);
    const std::string word = is_variable ? "" : "--" + name + (is_flag ? "" : "=" + *value);
    if (is_flag && *value != "true") return none(given, "it takes no value but `true` or `false`");
    const std::string against = is_variable ? refusal("", {{name, *value}}) : refusal(word, {});
    if (!against.empty()) return none(given, against);
    const auto before = set_.find(name);
    const bool is_list = spec != nullptr && spec->type == OptionType::kList;
    if (before != set_.end() && !is_list) {
      if (before->second != *value) none(given, "there is another value before it");
      return;
    }
    if (is_variable) {
      set_[name] = *value;
      out_.environment.emplace_back(name, *value);
    } else {
      put_option(name, is_flag ? std::string() : *value);
      set_[name] = *value;
    }
  }

  // An empty value: a flag.
  void put_option(const std::string& name, const std::string& value) {
    set_[name] = value;
    if (value.starts_with('-')) {
      out_.command.push_back("--" + name + "=" + value);
      return;
    }
    out_.command.push_back("--" + name);
    if (!value.empty()) out_.command.push_back(value);
  }

  Migrated out_;
  std::map<std::string, std::string> set_;
};

Migrated migrated(const Input& input) {
  Migration migration(*input.program);
  for (const Given& given : input.given) migration.add(given);
  Migrated out = std::move(migration).take();
  if (input.in_container)
    out.without_equivalent.push_back(
        {"what stands before the image",
         "it is about the container; ports, folders and limits stay yours"});
  return out;
}

}  // namespace

std::string_view name_of(Program program) {
  return table_of(program).name;
}

std::optional<Program> program_of(std::string_view name) {
  for (std::size_t i = 0; i < kProgramCount; ++i)
    if (name == name_of(static_cast<Program>(i))) return static_cast<Program>(i);
  return std::nullopt;
}

Result<Migrated> migrate_command(std::span<const std::string> words, std::optional<Program> from) {
  const Input input = read_command(words, from, find_rule);
  if (input.program) return migrated(input);
  std::string names;
  for (std::size_t i = 0; i < kProgramCount; ++i)
    names += (i == 0 ? "" : ", ") + std::string(name_of(static_cast<Program>(i)));
  return invalid_argument("no program that is known begins the command; --from says which it is: " +
                          names);
}

Result<Migrated> migrate_text(std::string_view text, std::optional<Program> from) {
  const bool may_be_ollama = !from || *from == Program::kOllama;
  if (may_be_ollama && is_modelfile(text))
    return migrated({.program = Program::kOllama, .given = read_modelfile(text)});
  const bool may_be_triton = !from || *from == Program::kTriton;
  if (may_be_triton && is_triton_config(text))
    return migrated({.program = Program::kTriton, .given = read_triton_config(text, find_rule)});
  return migrate_command(base::shell_words(text), from);
}

std::string text_of(const Migrated& migrated) {
  std::string out;
  for (const auto& [name, value] : migrated.environment)
    out += name + "=" + base::shell_quoted(value) + " ";
  for (const std::string& word : migrated.command)
    out += (&word == &migrated.command.front() ? "" : " ") + base::shell_quoted(word);
  out += "\n";
  if (!migrated.without_equivalent.empty()) out += "\nwithout equivalent:\n";
  for (const Note& note : migrated.without_equivalent)
    out += "  " + note.what + ": " + note.why + "\n";
  if (!migrated.not_needed.empty()) out += "\nso here anyway:\n";
  for (const std::string& text : migrated.not_needed) out += "  " + text + "\n";
  return out;
}

}  // namespace coxswain::migrate
