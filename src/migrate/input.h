#pragma once
// What was given to another server, taken apart: names with values, before anything is known of what they mean.
//
// Thread rule: pure functions.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "migrate/migrate.h"
#include "migrate/rule.h"

namespace coxswain::migrate {

// The name of a word that is no option, in the tables.
inline constexpr std::string_view kModelWord = "MODEL";

struct Given {
  std::string name;                 // as typed: "--port", "OLLAMA_HOST", "num_ctx"
  std::vector<std::string> values;  // none: a flag
  std::string text;                 // all of it, for notes
};

struct Input {
  std::optional<Program> program;
  bool in_container = false;
  std::vector<Given> given;  // the command line before variables, which it beats
};

// The rule of a name in a program's table; null if none has it.
using FindRule = std::function<const Rule*(Program, std::string_view)>;

// Without `from`, the program is the one whose command it is.
Input read_command(std::span<const std::string> words,
                   std::optional<Program> from,
                   const FindRule& find);

bool is_modelfile(std::string_view text);
std::vector<Given> read_modelfile(std::string_view text);

bool is_triton_config(std::string_view text);
// Parameters, and of the rest what `find` knows.
std::vector<Given> read_triton_config(std::string_view text, const FindRule& find);

}  // namespace coxswain::migrate
