#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <arpa/inet.h>
#include <coxswain/status.h>

#include "options/command_line.h"
#include "options/config_file.h"
#include "options/nearest_option.h"
#include "options/options.h"
#include "options/words.h"

namespace coxswain::options {
namespace {

constexpr std::string_view kAnyAddress = "0.0.0.0";

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string plain(double value) {
  char buffer[32];
  const auto result = std::to_chars(std::begin(buffer), std::end(buffer), value);
  return {std::begin(buffer), result.ptr};
}

struct ByteUnit {
  std::string_view name;
  std::uint64_t bytes;
};

// In lower case; `4G` and `4GB` are decimal, `4Gi` and `4GiB` binary.
constexpr ByteUnit kByteUnits[] = {{"b", 1},
                                   {"k", 1'000},
                                   {"m", 1'000'000},
                                   {"g", 1'000'000'000},
                                   {"t", 1'000'000'000'000},
                                   {"kb", 1'000},
                                   {"mb", 1'000'000},
                                   {"gb", 1'000'000'000},
                                   {"tb", 1'000'000'000'000},
                                   {"ki", std::uint64_t{1} << 10},
                                   {"mi", std::uint64_t{1} << 20},
                                   {"gi", std::uint64_t{1} << 30},
                                   {"ti", std::uint64_t{1} << 40},
                                   {"kib", std::uint64_t{1} << 10},
                                   {"mib", std::uint64_t{1} << 20},
                                   {"gib", std::uint64_t{1} << 30},
                                   {"tib", std::uint64_t{1} << 40}};

// "2000000", "2MB", "1.5 GiB"
std::optional<std::uint64_t> byte_count(std::string_view text) {
  if (const auto plain_number = number<std::uint64_t>(text)) return plain_number;
  const std::size_t end = text.find_first_not_of("0123456789.");
  if (end == std::string_view::npos) return std::nullopt;
  const auto amount = number<double>(text.substr(0, end));
  std::string name;
  for (const char c : text.substr(text[end] == ' ' ? end + 1 : end)) {
    name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  const auto* unit = std::ranges::find(kByteUnits, name, &ByteUnit::name);
  if (!amount || unit == std::end(kByteUnits)) return std::nullopt;
  constexpr double kTooLarge = 18446744073709551616.0;  // 2^64
  const double bytes = *amount * static_cast<double>(unit->bytes);
  if (bytes >= kTooLarge) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

bool is_address(const std::string& text) {
  in6_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

// A row of any program, `binary` first.
const OptionSpec* find_anywhere(Binary binary, std::string_view key) {
  const OptionSpec* found = find_option(binary, key);
  for (const Binary other : kBinaries)
    if (found == nullptr) found = find_option(other, key);
  return found;
}

std::string joined(std::string_view list) {
  std::string out;
  for (const std::string_view word : split_words(list)) {
    if (!out.empty()) out += ", ";
    out += "`" + std::string(word) + "`";
  }
  return out;
}

bool is_neutral(const OptionSpec& spec, const std::string& text) {
  if (text == spec.default_value) return true;
  if (spec.type == OptionType::kFlag && spec.neutral.empty()) return text == "false";
  for (const std::string_view word : split_words(spec.neutral)) {
    if (word == text) return true;
    const auto a = number<double>(word);
    if (a && a == number<double>(text)) return true;
  }
  return false;
}

}  // namespace

// Turns texts into checked entries.
class ValueReader {
 public:
  ValueReader(Binary binary,
              const CommandLine& line,
              const Environment& environment,
              const ConfigFile& file)
      : line_(line), environment_(environment), file_(file), values_(binary) {}

  Status read_all(std::vector<std::string>& warnings) {
    COXSWAIN_RETURN_IF_ERROR(check_file(warnings));
    for (auto& [key, entry] : values_.entries_) {
      find_texts(entry);
      if (entry.source == Source::kUnset) continue;
      if (entry.spec->env == "HOSTNAME") COXSWAIN_RETURN_IF_ERROR(settle_hostname(entry, warnings));
      COXSWAIN_RETURN_IF_ERROR(check(entry));
      if (entry.source >= Source::kFile) {
        COXSWAIN_RETURN_IF_ERROR(check_support(entry, warnings));
      }
    }
    return {};
  }

  OptionValues take() && { return std::move(values_); }

 private:
  using Entry = OptionValues::Entry;

  // Names, and the values that are not for this program; its own are checked where they hold.
  Status check_file(std::vector<std::string>& warnings) const {
    const Binary binary = values_.binary();
    for (const auto& [name, given] : file_.entries) {
      const std::string place = file_.place(given.line) + ": ";
      const OptionSpec* spec = find_anywhere(binary, name);
      if (spec == nullptr) return invalid_argument(place + unknown_name(binary, name));
      if (name == "config" || name == "print-config")
        return invalid_argument(std::string(place).append("`").append(name).append(
            "` stands on the command line only"));
      if (given.is_list && spec->type != OptionType::kList && spec->type != OptionType::kU64List)
        return invalid_argument(
            std::string(place).append("`").append(name).append("` has one value, not a list"));
      if (spec->is_in(binary)) continue;
      Entry entry = entry_of(*spec, given);
      COXSWAIN_RETURN_IF_ERROR(check(entry));
      if (binary == Binary::kLauncher)
        warnings.push_back(label(entry) + " has no effect: the launcher does not take it");
    }
    return {};
  }

  static std::string unknown_name(Binary binary, std::string_view name) {
    std::string nearest = nearest_option(binary, name);
    for (const Binary other : kBinaries)
      if (nearest.empty()) nearest = nearest_option(other, name);
    return "unknown option `" + shown(name) + "`" +
           (nearest.empty() ? "" : "; did you mean `" + nearest.substr(2) + "`?");
  }

  Entry entry_of(const OptionSpec& spec, const ConfigEntry& given) const {
    Entry entry;
    entry.spec = &spec;
    entry.source = Source::kFile;
    entry.texts = given.texts;
    entry.place = file_.place(given.line);
    return entry;
  }

  // The option as the person who set it knows it.
  static std::string label(const Entry& entry) {
    const OptionSpec& spec = *entry.spec;
    if (entry.source == Source::kFile)
      return "`" + std::string(spec.key()) + "` (" + entry.place + ")";
    if (entry.source == Source::kEnvironment || spec.name.empty())
      return "`" + std::string(spec.env) + "`";
    return "`--" + std::string(spec.name) + "`";
  }

  // Containers set HOSTNAME to their own name, which must not open a machine whose file says where to listen.
  static bool is_for_container(const OptionSpec& spec, const std::string& text) {
    return spec.env == "HOSTNAME" && text != "localhost" && !is_address(without_brackets(text));
  }

  static std::string without_brackets(const std::string& text) {
    const bool has =
        text.starts_with('[') && text.ends_with(']') && text.find(':') != std::string::npos;
    return has ? text.substr(1, text.size() - 2) : text;
  }

  void find_texts(Entry& entry) const {
    const OptionSpec& spec = *entry.spec;
    const auto given = line_.texts.find(spec.name);
    if (!spec.name.empty() && given != line_.texts.end()) {
      entry.texts = given->second;
      entry.source = Source::kCommandLine;
      return;
    }
    const std::string_view env = spec.env_in(values_.binary());
    const auto variable = environment_.find(env);
    const bool is_set = !env.empty() && variable != environment_.end() && !variable->second.empty();
    const auto in_file = file_.entries.find(spec.key());
    if (in_file != file_.entries.end() && (!is_set || is_for_container(spec, variable->second))) {
      entry = entry_of(spec, in_file->second);
    } else if (is_set) {
      entry.texts = {variable->second};
      entry.source = Source::kEnvironment;
    } else if (!spec.default_value.empty()) {
      entry.texts = {std::string(spec.default_value)};
      entry.source = Source::kDefault;
    } else if (spec.type == OptionType::kFlag) {
      entry.texts = {"false"};
      entry.source = Source::kDefault;
    }
  }

  static Status wrong(const Entry& entry, const std::string& expected) {
    return wrong(entry, expected, entry.texts.front());
  }
  static Status wrong(const Entry& entry, const std::string& expected, std::string_view given) {
    const bool hide = entry.spec->secret;
    return invalid_argument(label(entry) + " must be " + expected +
                            (hide ? "" : ", not `" + shown(given) + "`"));
  }

  // Containers set the variable to their own name, so what is no address there means all addresses, as for TGI.
  // Elsewhere it is a mistake, and listening on all addresses would open the machine.
  static Status settle_hostname(Entry& entry, std::vector<std::string>& warnings) {
    std::string& text = entry.texts.front();
    if (text == "localhost") text = "127.0.0.1";
    text = without_brackets(text);
    if (is_address(text)) return {};
    if (entry.source != Source::kEnvironment)
      return wrong(entry, "an IPv4 or IPv6 address or `localhost`");
    warnings.push_back("Invalid hostname " + shown(text) + " in " + label(entry) +
                       ", defaulting to " + std::string(kAnyAddress));
    text = kAnyAddress;
    return {};
  }

  static Status check(Entry& entry) {
    const OptionSpec& spec = *entry.spec;
    for (const std::string& text : entry.texts) {
      if (text.empty()) return invalid_argument(label(entry) + " must not be empty");
    }
    const std::string& text = entry.texts.front();
    switch (spec.type) {
      case OptionType::kString:
      case OptionType::kList:
        return {};
      case OptionType::kFlag:
      case OptionType::kBool:
        if (!spec.choices.empty() && !has_word(spec.choices, text)) {
          return wrong(entry, "one of " + joined(spec.choices));
        }
        if (spec.choices.empty() && text != "true" && text != "false") {
          return wrong(entry, "`true` or `false`");
        }
        entry.flag = text == "true" || text == "1";
        return {};
      case OptionType::kChoice:
        if (has_word(spec.choices, text)) return {};
        if (has_word(spec.refused_choices, text)) {
          return invalid_argument("`" + text + "` for " + label(entry) +
                                  " is not supported yet; supported: " + joined(spec.choices) +
                                  (spec.reason.empty() ? "" : ", or " + std::string(spec.reason)));
        }
        return wrong(entry, "one of " + joined(spec.choices));
      case OptionType::kU64:
        return check_u64(entry);
      case OptionType::kU64List:
        return check_u64_list(entry);
      case OptionType::kF64:
        return check_f64(entry);
    }
    return internal_error("an option has no type");
  }

  static Status check_u64(Entry& entry) {
    const OptionSpec& spec = *entry.spec;
    const bool in_bytes = spec.unit == "bytes";
    const std::string& text = entry.texts.front();
    const auto value = in_bytes ? byte_count(text) : number<std::uint64_t>(text);
    if (!value || *value < spec.min || *value > spec.max) {
      const std::string unit = spec.unit.empty() ? ""
                               : in_bytes        ? " (bytes, or with a unit as in 512MB or 4GiB)"
                                                 : " (" + std::string(spec.unit) + ")";
      return wrong(entry,
                   "a whole number from " + std::to_string(spec.min) + " to " +
                       std::to_string(spec.max) + unit);
    }
    if (!spec.choices.empty() && !has_word(spec.choices, std::to_string(*value))) {
      return wrong(entry, "one of " + joined(spec.choices));
    }
    entry.u64 = *value;
    if (in_bytes) entry.texts.front() = std::to_string(*value);  // children get plain numbers
    return {};
  }

  static Status check_u64_list(Entry& entry) {
    const OptionSpec& spec = *entry.spec;
    entry.u64s.clear();
    for (const std::string& text : entry.texts) {
      std::string_view rest = text;
      for (bool more = true; more;) {
        const std::size_t comma = rest.find(',');
        more = comma != std::string_view::npos;
        const auto value = number<std::uint64_t>(rest.substr(0, comma));
        if (!value || *value < spec.min || *value > spec.max) {
          return wrong(entry,
                       "whole numbers from " + std::to_string(spec.min) + " to " +
                           std::to_string(spec.max) + " (" + std::string(spec.unit) +
                           ") with commas between them",
                       text);
        }
        entry.u64s.push_back(*value);
        if (more) rest.remove_prefix(comma + 1);
      }
    }
    return {};
  }

  static Status check_f64(Entry& entry) {
    const OptionSpec& spec = *entry.spec;
    const auto value = number<double>(entry.texts.front());
    if (!value || !std::isfinite(*value) || *value < spec.low || *value > spec.high) {
      return wrong(entry, "a number from " + plain(spec.low) + " to " + plain(spec.high));
    }
    entry.f64 = *value;
    return {};
  }

  static Status check_support(const Entry& entry, std::vector<std::string>& warnings) {
    const OptionSpec& spec = *entry.spec;
    if (spec.status == OptionStatus::kLive || is_neutral(spec, entry.texts.front())) return {};
    const std::string reason = spec.reason.empty() ? "" : ": " + std::string(spec.reason);
    if (spec.status == OptionStatus::kRefused) {
      return invalid_argument(label(entry) + " is not supported yet" + reason);
    }
    warnings.push_back(label(entry) + " has no effect" + reason);
    return {};
  }

  const CommandLine& line_;
  const Environment& environment_;
  const ConfigFile& file_;
  OptionValues values_;
};

namespace {

constexpr std::string_view kPrintSchema = "print-schema";

// Words that are no options: `serve MODEL_ID` of the server, `print-schema` of the router.
Status take_words(Binary binary, CommandLine& line) {
  if (binary != Binary::kServer) {
    if (binary == Binary::kRouter && !line.words.empty() && line.words.front() == kPrintSchema)
      line.words.erase(line.words.begin());
    if (line.words.empty()) return {};
    return invalid_argument("unexpected argument `" + shown(line.words.front()) + "`");
  }
  if (line.texts.contains("model-id"))
    return invalid_argument("the model is the word after `serve`, there is no option `--model-id`");
  if (line.words.empty()) return invalid_argument("a command is missing: serve MODEL_ID");
  if (line.words[0] == "quantize")
    return invalid_argument("the command `quantize` is not supported yet");
  if (line.words[0] != "serve") {
    return invalid_argument("unknown command `" + shown(line.words[0]) + "`: serve is there");
  }
  if (line.words.size() < 2) return {};
  if (line.words.size() > 2) {
    return invalid_argument("unexpected argument `" + shown(line.words[2]) + "`");
  }
  line.texts["model-id"] = {line.words[1]};
  return {};
}

// That of --config; without entries if none is named.
Result<ConfigFile> config_of(const CommandLine& line, const Environment& environment) {
  const auto given = line.texts.find("config");
  if (given != line.texts.end()) return read_config(given->second.front());
  const auto variable = environment.find("COXSWAIN_CONFIG");
  if (variable == environment.end() || variable->second.empty()) return ConfigFile{};
  return read_config(variable->second);
}

ParseResult ended(Binary binary, std::string output) {
  return {
      .exit_code = 0, .output = std::move(output), .values = OptionValues(binary), .warnings = {}};
}

ParseResult usage_error(Binary binary, const Status& status) {
  return {.exit_code = 2,
          .output = "error: " + status.message() + " (see " + std::string(program_name(binary)) +
                    " --help)\n",
          .values = OptionValues(binary),
          .warnings = {}};
}

}  // namespace

Environment environment_of(const char* const* environ_entries) {
  Environment out;
  for (; environ_entries != nullptr && *environ_entries != nullptr; ++environ_entries) {
    const std::string_view entry = *environ_entries;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    out.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  // Another name of the same.
  if (const auto port = out.find("AIP_HTTP_PORT"); port != out.end())
    out.emplace("PORT", port->second);
  return out;
}

ParseResult parse(Binary binary,
                  int argc,
                  const char* const* argv,
                  const Environment& environment) {
  auto line = split_command_line(binary, argc, argv);
  if (!line.ok()) return usage_error(binary, line.status());
  if (line->help || line->help_all || line->version) {
    return ended(binary,
                 line->help_all ? help_text(binary, HelpSize::kFull)
                 : line->help   ? help_text(binary, HelpSize::kShort)
                                : std::string(program_name(binary)) + " " COXSWAIN_VERSION "\n");
  }
  const bool prints_schema = !line->words.empty() && line->words.front() == kPrintSchema;
  if (const Status status = take_words(binary, *line); !status.ok()) {
    return usage_error(binary, status);
  }
  const auto file = config_of(*line, environment);
  if (!file.ok()) return usage_error(binary, file.status());
  std::vector<std::string> warnings;
  ValueReader reader(binary, *line, environment, *file);
  if (const Status status = reader.read_all(warnings); !status.ok()) {
    return usage_error(binary, status);
  }
  OptionValues values = std::move(reader).take();
  if (values.get<"print-config">()) return ended(binary, config_text(values, warnings));
  if (binary == Binary::kServer && values.texts("model-id").empty())
    return usage_error(binary, invalid_argument("`serve` needs the folder of a model"));
  return {.exit_code = std::nullopt,
          .output = {},
          .values = std::move(values),
          .warnings = std::move(warnings),
          .prints_schema = prints_schema};
}

}  // namespace coxswain::options
