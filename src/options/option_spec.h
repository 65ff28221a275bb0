#pragma once
// OptionSpec: one row of the option table, and the words that its columns are written in.
//
// Thread rule: constants.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace coxswain::options {

enum class Binary : std::uint8_t { kLauncher, kRouter, kServer, kBenchmark };
inline constexpr std::array kBinaries{
    Binary::kLauncher, Binary::kRouter, Binary::kServer, Binary::kBenchmark};

using BinarySet = std::uint8_t;
inline constexpr BinarySet kInLauncher = 1;
inline constexpr BinarySet kInRouter = 2;
inline constexpr BinarySet kInServer = 4;
inline constexpr BinarySet kInBenchmark = 8;
inline constexpr BinarySet kFront = kInLauncher | kInRouter;
inline constexpr BinarySet kBack = kInLauncher | kInServer;
inline constexpr BinarySet kAll = kInLauncher | kInRouter | kInServer;  // the processes of a server
constexpr BinarySet bit_of(Binary binary) {
  return static_cast<BinarySet>(1U << static_cast<unsigned>(binary));
}

// Bounds that several rows name.
inline constexpr std::uint64_t kU16Max = 65'535;
inline constexpr std::uint64_t kU32Max = 4'294'967'295;
inline constexpr std::uint64_t kDayMs = 86'400'000;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

enum class OptionType : std::uint8_t {
  kString,
  kU64,      // a time where the unit is "ms" or "s"
  kU64List,  // one or more, with commas between them or each with the option before it
  kF64,
  kFlag,    // no value on the command line
  kBool,    // needs `true` or `false`, or one of `choices`, of which `true` and `1` mean true
  kChoice,  // one of `choices`
  kList,    // repeatable on the command line; the environment gives one entry
};

enum class OptionStatus : std::uint8_t {
  kLive,
  kRefused,  // an error unless the value is one of `neutral` (a flag: false)
  kNoop,     // accepted, without effect, and without a warning if `neutral`; `reason` says why
};

// Each group has one file below rows/, and one title in --help and in docs/options.md.
enum class Group : std::uint8_t {
  kModel,
  kLimits,
  kBatching,
  kMemory,
  kHttp,
  kSecurity,
  kLogs,
  kProcesses,
  kFleet,
  kBenchmark,
};
inline constexpr std::size_t kGroupCount = 10;

// Lists of words are separated by '|'. Getters are given `name`, or `env` where the row has no flag.
struct OptionSpec {
  std::string_view name{};  // long flag without dashes; empty: environment only
  char short_name = 0;
  std::string_view env{};      // empty: command line only
  BinarySet env_binaries = 0;  // those of `binaries` that read `env`; 0: all
  OptionType type = OptionType::kString;
  std::string_view default_value{};  // empty: no value unless set
  std::string_view unit{};           // "bytes", "tokens", "ms", ...
  std::uint64_t min = 0;             // of kU64, and of each number of a kU64List
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  double low = 0;  // of kF64
  double high = 1e9;
  std::string_view choices{};          // of kChoice and kBool, or the only numbers allowed
  std::string_view refused_choices{};  // known to TGI, not supported yet
  BinarySet binaries = 0;
  OptionStatus status = OptionStatus::kLive;
  std::string_view neutral{};  // values of a refused or no-op option that ask for what is so anyway
  bool secret = false;         // never shown, never passed on a command line
  bool ours = false;           // TGI does not have it
  bool common = false;         // in --help, which leaves the others to --help-all
  Group group = Group::kModel;  // by the file that the row stands in
  std::string_view help{};
  std::string_view reason{};

  // What the row is known by in code.
  constexpr std::string_view key() const { return name.empty() ? env : name; }
  constexpr bool is_in(Binary binary) const { return (binaries & bit_of(binary)) != 0; }
  // The variable that `binary` reads; empty if it reads none.
  constexpr std::string_view env_in(Binary binary) const {
    const BinarySet readers = env_binaries == 0 ? binaries : env_binaries;
    return (readers & bit_of(binary)) != 0 ? env : std::string_view();
  }
};

}  // namespace coxswain::options
