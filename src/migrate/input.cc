#include "migrate/input.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/shell_words.h"

namespace coxswain::migrate {
namespace {

struct Command {
  std::string_view name;  // of the program's file
  Program program;
  std::string_view verbs;  // words behind it that are no model, each with a space behind it
};
constexpr std::array kCommands{
    Command{"text-generation-launcher", Program::kTgi, ""},
    Command{"vllm", Program::kVllm, "serve "},
    Command{"llama-server", Program::kLlamaServer, ""},
    Command{"llama", Program::kLlamaServer, "serve server "},
    Command{"ollama", Program::kOllama, "serve run "},
    Command{"lmdeploy", Program::kLmdeploy, "serve api_server "},
    Command{"trtllm-serve", Program::kTriton, "serve "},
    Command{"tritonserver", Program::kTriton, ""},
};

// Parts of the names of images.
constexpr std::array kImages{
    std::pair{std::string_view("text-generation-inference"), Program::kTgi},
    std::pair{std::string_view("vllm-openai"), Program::kVllm},
    std::pair{std::string_view("llama.cpp"), Program::kLlamaServer},
    std::pair{std::string_view("ollama/ollama"), Program::kOllama},
    std::pair{std::string_view("lmdeploy"), Program::kLmdeploy},
    std::pair{std::string_view("tritonserver"), Program::kTriton},
};

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The length of NAME in "NAME=value", else 0.
std::size_t variable_length(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) return 0;
  return std::ranges::all_of(word.substr(0, equals), is_name_character) ? equals : 0;
}

bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

bool has_choice(std::string_view list, std::string_view word) {
  return ("|" + std::string(list) + "|").find("|" + std::string(word) + "|") != std::string::npos;
}

class CommandReader {
 public:
  CommandReader(std::span<const std::string> words,
                std::optional<Program> from,
                const FindRule& find)
      : words_(words), find_(find) {
    input_.program = from;
  }

  Input read() && {
    take_front();
    while (!words_.empty() && input_.program) take_argument(*input_.program);
    input_.given.insert(input_.given.end(), variables_.begin(), variables_.end());
    return std::move(input_);
  }

 private:
  std::string next() {
    std::string word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }

  void take_variable(const std::string& word) {
    const std::size_t equals = word.find('=');
    variables_.push_back({word.substr(0, equals), {word.substr(equals + 1)}, word});
  }

  // Up to the first argument of the program.
  void take_front() {
    constexpr std::array<std::string_view, 5> kBefore{"sudo", "env", "exec", "nohup", "export"};
    while (!words_.empty() && (variable_length(words_.front()) > 0 ||
                               std::ranges::count(kBefore, words_.front()) > 0)) {
      const std::string word = next();
      if (variable_length(word) > 0) take_variable(word);
    }
    if (words_.empty()) return;
    const std::string name = words_.front().substr(words_.front().rfind('/') + 1);
    if (name == "docker" || name == "podman") return take_container();
    if (name.starts_with("python") && words_.size() > 2 && words_[1] == "-m" &&
        words_[2].starts_with("vllm.")) {
      input_.program = Program::kVllm;
      words_ = words_.subspan(3);
      return;
    }
    for (const Command& command : kCommands) {
      if (command.name != name) continue;
      input_.program = command.program;
      next();
      while (!words_.empty() && command.verbs.find(words_.front() + " ") != std::string_view::npos)
        next();
      return;
    }
  }

  void take_container() {
    input_.in_container = true;
    while (!words_.empty()) {
      const std::string word = next();
      const bool is_variable = (word == "-e" || word == "--env") && !words_.empty();
      if (is_variable && variable_length(words_.front()) > 0) take_variable(next());
      if (word.starts_with("--env=")) take_variable(word.substr(6));
      if (word.starts_with('-')) continue;
      const auto* image = std::ranges::find_if(
          kImages, [&](const auto& entry) { return word.find(entry.first) != std::string::npos; });
      if (image == kImages.end() || word.starts_with('/')) continue;
      input_.program = image->second;
      // Some images are given the whole command.
      CommandReader behind(words_, image->second, find_);
      Input rest = std::move(behind).read();
      input_.given = std::move(rest.given);
      words_ = {};
    }
  }

  void take_argument(Program program) {
    const std::string word = next();
    if (!is_option(word)) {
      if (variable_length(word) > 0 &&
          find_(program, word.substr(0, variable_length(word))) != nullptr)
        return take_variable(word);
      input_.given.push_back({std::string(kModelWord), {word}, word});
      return;
    }
    const std::size_t equals = word.find('=');
    Given given{.name = word.substr(0, equals), .values = {}, .text = word};
    const Rule* rule = find_(program, given.name);
    if (equals != std::string::npos) {
      given.values.push_back(word.substr(equals + 1));
    } else {
      take_values(rule, given);
    }
    input_.given.push_back(std::move(given));
  }

  // Of an option that nobody knows, the word behind it is taken for its value.
  void take_values(const Rule* rule, Given& given) {
    const Form form = rule == nullptr ? Form::kValue : rule->form;
    const auto follows = [&] {
      if (words_.empty() || form == Form::kFlag) return false;
      if (form == Form::kMaybe) return has_choice(rule->words, words_.front());
      return !is_option(words_.front());
    };
    while (follows()) {
      given.values.push_back(next());
      given.text += " " + given.values.back();
      if (form != Form::kMany) return;
    }
  }

  std::span<const std::string> words_;
  const FindRule& find_;
  Input input_;
  std::vector<Given> variables_;
};

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return trimmed(line);
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

// The first word of `line`, which loses it.
std::string_view first_word(std::string_view& line) {
  const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view word = line.substr(0, end);
  line = trimmed(line.substr(end));
  return word;
}

}  // namespace

Input read_command(std::span<const std::string> words,
                   std::optional<Program> from,
                   const FindRule& find) {
  return CommandReader(words, from, find).read();
}

bool is_modelfile(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = next_line(text);
    if (line.empty() || line.front() == '#') continue;
    const std::string word = upper(first_word(line));
    return word == "FROM" || word == "PARAMETER";
  }
  return false;
}

std::vector<Given> read_modelfile(std::string_view text) {
  constexpr std::string_view kLongQuote = "\"\"\"";
  std::vector<Given> out;
  while (!text.empty()) {
    std::string_view line = next_line(text);
    if (line.empty() || line.front() == '#') continue;
    std::string name = upper(first_word(line));
    if (const std::size_t open = line.find(kLongQuote); open != std::string_view::npos) {
      // To the end of the text where it is not closed.
      if (line.find(kLongQuote, open + 3) == std::string_view::npos)
        text.remove_prefix(std::min(text.size(), text.find(kLongQuote)) +
                           (text.find(kLongQuote) == std::string_view::npos ? 0 : 3));
      out.push_back({name, {""}, name});
      continue;
    }
    const bool is_parameter = name == "PARAMETER";
    if (is_parameter) name = first_word(line);
    if (line.size() > 1 && line.front() == '"' && line.back() == '"')
      line = line.substr(1, line.size() - 2);
    const bool is_short = is_parameter || name == "FROM" || name == "ADAPTER";
    out.push_back({name, {std::string(line)}, is_short ? name + " " + std::string(line) : name});
  }
  return out;
}

bool is_triton_config(std::string_view text) {
  return text.find("string_value") != std::string_view::npos ||
         text.find("max_batch_size:") != std::string_view::npos;
}

std::vector<Given> read_triton_config(std::string_view text, const FindRule& find) {
  std::string spaced;  // protobuf's text format, of which names, values and colons matter
  bool in_quote = false;
  for (const char c : text) {
    if (c == '"') in_quote = !in_quote;
    const bool is_mark =
        !in_quote && (c == ':' || c == '{' || c == '}' || c == '[' || c == ']' || c == ',');
    if (!is_mark) {
      spaced += c;
    } else if (c == ':') {
      spaced += " : ";
    } else {
      spaced += ' ';
    }
  }
  const std::vector<std::string> words = base::shell_words(spaced);
  std::vector<Given> out;
  const auto add = [&](const std::string& name, const std::string& value) {
    out.push_back({name, {value}, std::string(name).append(": ").append(value)});
  };
  std::string key;
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {
    if (words[i + 1] != ":") continue;
    const std::string& name = words[i];
    const std::string& value = words[i + 2];
    if (name == "key") {
      key = value;
    } else if (name == "string_value" && !key.empty()) {
      add(key, value);
      key.clear();
    } else if (find(Program::kTriton, name) != nullptr) {
      add(name, value);
    }
  }
  return out;
}

}  // namespace coxswain::migrate
