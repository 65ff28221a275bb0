#pragma once
// What the command line, the variables or the parameter list of another server is with our launcher. The options of
// each program are rows below rows/; what a row makes is taken only if our option table takes it, so the result is a
// command that the launcher accepts.
//
// Thread rule: pure functions.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::migrate {

enum class Program : std::uint8_t { kTgi, kVllm, kLlamaServer, kOllama, kLmdeploy, kTriton };
inline constexpr std::size_t kProgramCount = 6;

// "tgi", "vllm", "llama-server", "ollama", "lmdeploy", "triton"
std::string_view name_of(Program program);
std::optional<Program> program_of(std::string_view name);

struct Note {
  std::string what;
  std::string why;
};

struct Migrated {
  Program from = Program::kTgi;
  std::vector<std::pair<std::string, std::string>> environment = {};  // ours, before the command
  std::vector<std::string> command = {};                              // the launcher first
  std::vector<Note> without_equivalent = {};
  std::vector<std::string> not_needed = {};  // what is so here anyway
};

// Words of a command: variables (NAME=value), the program, its options; `docker run` before them is looked through.
// `from` is for words that do not begin with a program that is known.
// Errors: kInvalidArgument if nothing tells whose words they are.
Result<Migrated> migrate_command(std::span<const std::string> words, std::optional<Program> from);

// A file: a command over lines, a Modelfile of Ollama, or a config.pbtxt or lines `name: value` of Triton's parameters.
// Errors: as migrate_command.
Result<Migrated> migrate_text(std::string_view text, std::optional<Program> from);

// The command in one line, words quoted for a shell, then what has no equivalent.
std::string text_of(const Migrated& migrated);

}  // namespace coxswain::migrate
