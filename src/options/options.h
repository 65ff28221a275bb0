#pragma once
// Every option of every binary, declared once: a row of the table (table.h, rows/) gives the flag, the environment
// variable, the default, the help text and the line of the reference page (docs/options.md).
//
// A value comes from the command line, else from the environment variable of the same row, else from the file of
// --config (config_file.h), else it is the default. An empty variable counts as unset. Variables of flags are exactly
// `true` or `false`. A variable that belongs to no row of the binary is never looked at. Options that TGI has
// and this version does not support are refused by name as soon as they would change something;
// options that have nothing to do here are accepted, and setting one gives a warning that says why.
//
// Thread rule: values; parse() reads the file of --config, touches no other state and prints nothing.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "options/option_spec.h"
#include "options/table.h"

namespace coxswain::options {

std::string_view program_name(Binary binary);  // "text-generation-launcher", ...
std::string_view title_of(Group group);

// All rows. A name may have two rows for different binaries, where defaults differ.
std::span<const OptionSpec> option_table();
// The row of `name` (or environment name) in `binary`; null if there is none.
const OptionSpec* find_option(Binary binary, std::string_view name);

using Environment = std::map<std::string, std::string, std::less<>>;
// From the `environ` array of the process (entries without '=' are skipped).
Environment environment_of(const char* const* environ_entries);

enum class Source : std::uint8_t { kUnset, kDefault, kFile, kEnvironment, kCommandLine };

// Checked values of one binary.
//
//   values.get<"port">()               std::uint16_t: the row has a default, and a largest value that fits
//   values.get<"max-total-tokens">()   std::optional<std::uint32_t>: the row has no default
//   values.get<"idle-timeout-ms">()    std::chrono::milliseconds: its unit is a time
//
// The table decides the type, so a name that no row has does not compile. Asking for a row of other
// binaries is a bug and aborts.
class OptionValues {
 public:
  explicit OptionValues(Binary binary);

  Binary binary() const { return binary_; }

  // const std::string& | std::uint16_t, 32 or 64 | milliseconds | double | bool | const std::vector<std::uint64_t>& |
  // const std::vector<std::string>&, or an optional of it for a row without a default. A list of texts is empty if it
  // was not given.
  template <OptionName kName>
  decltype(auto) get() const;

  // Whether somebody gave it: it is no default.
  template <OptionName kName>
  bool is_set() const {
    static_assert(facts_of(kName.view()).exists, "no option has this name");
    return source(kName.view()) >= Source::kFile;
  }

  // For those who walk over the rows. REQUIRES: `key` is that of a row of this binary.
  Source source(std::string_view key) const { return entry(key).source; }
  // As they would stand on a command line, one for each time; empty if there is no value.
  const std::vector<std::string>& texts(std::string_view key) const { return entry(key).texts; }
  // Where in the file of --config it stands, as "serve.yaml:3"; empty if it is not from there.
  const std::string& place(std::string_view key) const { return entry(key).place; }

 private:
  friend class ValueReader;
  struct Entry {
    const OptionSpec* spec = nullptr;
    Source source = Source::kUnset;
    std::vector<std::string> texts;
    std::string place;
    std::uint64_t u64 = 0;
    std::vector<std::uint64_t> u64s;
    double f64 = 0;
    bool flag = false;
  };
  const Entry& entry(std::string_view key) const;
  template <ValueKind kKind>
  static auto value_of(const Entry& entry);

  Binary binary_;
  std::map<std::string, Entry, std::less<>> entries_;
};

struct ParseResult {
  // Set when the program should print `output` and end: 0 (to stdout: --help, --version, --print-config) or 2 (to
  // stderr: a usage error, one line).
  std::optional<int> exit_code;
  std::string output;
  OptionValues values;
  std::vector<std::string> warnings;  // for the log, once it exists
  bool prints_schema = false;         // the router's command `print-schema`
};

// `argv[0]` is skipped. The server takes `serve MODEL_ID`; MODEL_ID is its option "model-id", which the file may give
// too. Options in bytes take units (`4GiB`, `2MB`).
ParseResult parse(Binary binary, int argc, const char* const* argv, const Environment& environment);

// The arguments that give `child` the values of `parent` for every option that both have, secrets left out, as
// `--name=value`. Only what was set, or what differs between the two defaults, is listed.
std::vector<std::string> forwarded_arguments(const OptionValues& parent, Binary child);
// The same for secrets, and for variables that the parent read in its file, as NAME=value for the child's environment.
std::vector<std::string> forwarded_environment(const OptionValues& parent, Binary child);

// --help shows the options that people use, a line or two each, with an example; --help-all shows
// all of them.
enum class HelpSize : std::uint8_t { kShort, kFull };
std::string help_text(Binary binary, HelpSize size);
// What --print-config prints: what was given as --config reads it back, with where it came from; secrets, and what is
// so by default, in comments.
std::string config_text(const OptionValues& values, const std::vector<std::string>& warnings);
// docs/options.md, complete.
std::string reference_page();

template <ValueKind kKind>
auto OptionValues::value_of(const Entry& entry) {
  if constexpr (kKind == ValueKind::kText) return entry.texts.front();
  if constexpr (kKind == ValueKind::kTruth) return entry.flag;
  if constexpr (kKind == ValueKind::kReal) return entry.f64;
  if constexpr (kKind == ValueKind::kMilliseconds) return std::chrono::milliseconds(entry.u64);
  if constexpr (kKind == ValueKind::kSeconds)
    return std::chrono::milliseconds(std::chrono::seconds(entry.u64));
  if constexpr (kKind == ValueKind::kU16) return static_cast<std::uint16_t>(entry.u64);
  if constexpr (kKind == ValueKind::kU32) return static_cast<std::uint32_t>(entry.u64);
  if constexpr (kKind == ValueKind::kU64) return entry.u64;
}

template <OptionName kName>
decltype(auto) OptionValues::get() const {
  constexpr OptionFacts kFacts = facts_of(kName.view());
  static_assert(kFacts.exists, "no option has this name");
  static_assert(kFacts.is_uniform, "the option's rows give values of different types");
  const Entry& found = entry(kName.view());
  if constexpr (kFacts.kind == ValueKind::kList) {
    return (found.texts);
  } else if constexpr (kFacts.kind == ValueKind::kU64List) {
    static_assert(kFacts.has_value, "a list of numbers has a default");
    return (found.u64s);
  } else if constexpr (!kFacts.has_value) {
    using Value = decltype(value_of<kFacts.kind>(found));
    return found.source == Source::kUnset ? std::optional<Value>()
                                          : std::optional<Value>(value_of<kFacts.kind>(found));
  } else if constexpr (kFacts.kind == ValueKind::kText) {
    return (found.texts.front());
  } else {
    return value_of<kFacts.kind>(found);
  }
}

}  // namespace coxswain::options
