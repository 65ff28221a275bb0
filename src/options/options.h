#pragma once
// Every option of every binary, declared once: options_table.cc gives the flag, the environment
// variable, the help text and the reference page (docs/options.md).
//
// A value comes from the command line, else from the environment variable of the same row, else it
// is the default. An empty variable counts as unset. Variables of flags are exactly `true` or
// `false`. A variable that belongs to no row of the binary is never looked at. Options that TGI has
// and this version does not support are refused by name as soon as they would change something;
// options that have nothing to do here are accepted, and setting one gives a warning that says why.
//
// Thread rule: values; parse() touches no global state and prints nothing.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::options {

enum class Binary : std::uint8_t { kLauncher, kRouter, kServer };
std::string_view program_name(Binary binary);  // "text-generation-launcher", ...

using BinarySet = std::uint8_t;
inline constexpr BinarySet kInLauncher = 1;
inline constexpr BinarySet kInRouter = 2;
inline constexpr BinarySet kInServer = 4;
constexpr BinarySet bit_of(Binary binary) {
  return static_cast<BinarySet>(1U << static_cast<unsigned>(binary));
}

enum class OptionType : std::uint8_t {
  kString,
  kU64,
  kF64,
  kFlag,    // no value on the command line
  kBool,    // needs `true` or `false`
  kChoice,  // one of `choices`
  kList,    // repeatable on the command line; the environment gives one entry
};

enum class OptionStatus : std::uint8_t {
  kLive,
  kRefused,  // an error unless the value is one of `neutral` (a flag: false)
  kNoop,     // accepted, without effect, and without a warning if `neutral`; `reason` says why
};

enum class Group : std::uint8_t {
  kModel,
  kLimits,
  kBatching,
  kMemory,
  kHttp,
  kSecurity,
  kLogs,
  kProcesses,
};
inline constexpr std::size_t kGroupCount = 8;
std::string_view title_of(Group group);

// One row. Lists of words are separated by '|'. Getters are given `name`, or `env` where the row
// has no flag.
struct OptionSpec {
  std::string_view name{};  // long flag without dashes; empty: environment only
  char short_name = 0;
  std::string_view env{};  // empty: command line only
  OptionType type = OptionType::kString;
  std::string_view default_value{};  // empty: no value unless set
  std::string_view unit{};           // "bytes", "tokens", "ms", ...
  std::uint64_t min = 0;             // of kU64
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  double low = 0;  // of kF64
  double high = 1e9;
  std::string_view choices{};          // of kChoice, or the only numbers allowed
  std::string_view refused_choices{};  // known to TGI, not supported yet
  BinarySet binaries = 0;
  OptionStatus status = OptionStatus::kLive;
  std::string_view neutral{};  // values of a refused or no-op option that ask for what is so anyway
  bool secret = false;         // never shown, never passed on a command line
  bool ours = false;           // TGI does not have it
  Group group = Group::kModel;
  std::string_view help{};
  std::string_view reason{};
};

// All rows. A name may have two rows for different binaries, where defaults differ.
std::span<const OptionSpec> option_table();
// The row of `name` (or environment name) in `binary`; null if there is none.
const OptionSpec* find_option(Binary binary, std::string_view name);

using Environment = std::map<std::string, std::string, std::less<>>;
// From the `environ` array of the process (entries without '=' are skipped).
Environment environment_of(const char* const* environ_entries);

enum class Source : std::uint8_t { kUnset, kDefault, kEnvironment, kCommandLine };

// Checked values of one binary. Asking for a name that the binary does not have, or for another
// type, is a bug and aborts; so is get_*() of an option without default that was not set (use
// find_*()).
class OptionValues {
 public:
  explicit OptionValues(Binary binary);

  Binary binary() const { return binary_; }
  Source source(std::string_view name) const;
  // From the command line or the environment.
  bool is_set(std::string_view name) const { return source(name) >= Source::kEnvironment; }
  bool has_value(std::string_view name) const { return source(name) != Source::kUnset; }

  const std::string& get_string(std::string_view name) const;  // kString, kChoice
  std::uint64_t get_u64(std::string_view name) const;
  std::uint32_t get_u32(std::string_view name) const;  // the row's max must fit
  std::size_t get_size(std::string_view name) const;
  std::chrono::milliseconds get_ms(std::string_view name) const;  // rows with the unit "ms" or "s"
  double get_f64(std::string_view name) const;
  bool get_bool(std::string_view name) const;                             // kFlag, kBool
  const std::vector<std::string>& get_list(std::string_view name) const;  // kList; empty if not set

  std::optional<std::string> find_string(std::string_view name) const;
  std::optional<std::uint64_t> find_u64(std::string_view name) const;
  std::optional<double> find_f64(std::string_view name) const;
  std::optional<bool> find_bool(std::string_view name) const;

  // The value as text, as it would stand on a command line; empty if there is none.
  std::string text(std::string_view name) const;

 private:
  friend class ValueReader;
  struct Entry {
    const OptionSpec* spec = nullptr;
    Source source = Source::kUnset;
    std::vector<std::string> texts;
    std::uint64_t u64 = 0;
    double f64 = 0;
    bool flag = false;
  };
  const Entry& entry(std::string_view name) const;
  const Entry& entry(std::string_view name, OptionType type) const;

  Binary binary_;
  std::map<std::string, Entry, std::less<>> entries_;
};

struct ParseResult {
  // Set when the program should print `output` and end: 0 (to stdout: --help, --version) or 2 (to
  // stderr: a usage error, one line).
  std::optional<int> exit_code;
  std::string output;
  OptionValues values;
  std::vector<std::string> warnings;  // for the log, once it exists
};

// `argv[0]` is skipped. The server takes `serve MODEL_ID`; MODEL_ID is its option "model-id".
ParseResult parse(Binary binary, int argc, const char* const* argv, const Environment& environment);

// The arguments that give `child` the values of `parent` for every option that both have, secrets
// left out, as
// `--name=value`. Only what was set, or what differs between the two defaults, is listed.
std::vector<std::string> forwarded_arguments(const OptionValues& parent, Binary child);
// The same for secrets, as NAME=value for the child's environment.
std::vector<std::string> forwarded_environment(const OptionValues& parent, Binary child);

std::string help_text(Binary binary);
// docs/options.md, complete.
std::string reference_page();

}  // namespace coxswain::options
