#include <cstdio>
#include <cstdlib>

#include "options/options.h"

namespace coxswain::options {
namespace {

[[noreturn]] void bug(std::string_view name, const char* what) {
  std::fprintf(stderr, "fatal: option %.*s %s\n", static_cast<int>(name.size()), name.data(), what);
  std::abort();
}

const OptionSpec* same_option(const OptionSpec& spec, Binary child) {
  const OptionSpec* other = find_option(child, spec.name.empty() ? spec.env : spec.name);
  const bool usable = other != nullptr && other->type == spec.type &&
                      spec.status == OptionStatus::kLive && other->status == OptionStatus::kLive;
  return usable ? other : nullptr;
}

}  // namespace

std::string_view program_name(Binary binary) {
  switch (binary) {
    case Binary::kLauncher:
      return "text-generation-launcher";
    case Binary::kRouter:
      return "text-generation-router";
    case Binary::kServer:
      return "text-generation-server";
  }
  return "";
}

OptionValues::OptionValues(Binary binary) : binary_(binary) {
  for (const OptionSpec& spec : option_table()) {
    if ((spec.binaries & bit_of(binary)) == 0) continue;
    entries_[std::string(spec.name.empty() ? spec.env : spec.name)].spec = &spec;
  }
}

const OptionValues::Entry& OptionValues::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) bug(name, "does not exist in this binary");
  return found->second;
}

const OptionValues::Entry& OptionValues::entry(std::string_view name, OptionType type) const {
  const Entry& found = entry(name);
  if (found.spec->type != type) bug(name, "has another type");
  return found;
}

Source OptionValues::source(std::string_view name) const {
  return entry(name).source;
}

std::optional<std::string> OptionValues::find_string(std::string_view name) const {
  const Entry& found = entry(name);
  if (found.spec->type != OptionType::kString && found.spec->type != OptionType::kChoice) {
    bug(name, "has another type");
  }
  if (found.source == Source::kUnset) return std::nullopt;
  return found.texts.front();
}

std::optional<std::uint64_t> OptionValues::find_u64(std::string_view name) const {
  const Entry& found = entry(name, OptionType::kU64);
  if (found.source == Source::kUnset) return std::nullopt;
  return found.u64;
}

std::optional<double> OptionValues::find_f64(std::string_view name) const {
  const Entry& found = entry(name, OptionType::kF64);
  if (found.source == Source::kUnset) return std::nullopt;
  return found.f64;
}

std::optional<bool> OptionValues::find_bool(std::string_view name) const {
  const Entry& found = entry(name);
  if (found.spec->type != OptionType::kFlag && found.spec->type != OptionType::kBool) {
    bug(name, "has another type");
  }
  if (found.source == Source::kUnset) return std::nullopt;
  return found.flag;
}

const std::string& OptionValues::get_string(std::string_view name) const {
  if (!find_string(name)) bug(name, "has no value");
  return entry(name).texts.front();
}

std::uint64_t OptionValues::get_u64(std::string_view name) const {
  const auto value = find_u64(name);
  if (!value) bug(name, "has no value");
  return *value;
}

std::uint32_t OptionValues::get_u32(std::string_view name) const {
  const std::uint64_t value = get_u64(name);
  if (value > std::numeric_limits<std::uint32_t>::max()) bug(name, "does not fit 32 bits");
  return static_cast<std::uint32_t>(value);
}

std::size_t OptionValues::get_size(std::string_view name) const {
  return get_u64(name);
}

std::chrono::milliseconds OptionValues::get_ms(std::string_view name) const {
  const auto count = static_cast<std::int64_t>(get_u64(name));
  const std::string_view unit = entry(name).spec->unit;
  if (unit == "ms") return std::chrono::milliseconds(count);
  if (unit == "s") return std::chrono::seconds(count);
  bug(name, "is no time");
}

double OptionValues::get_f64(std::string_view name) const {
  const auto value = find_f64(name);
  if (!value) bug(name, "has no value");
  return *value;
}

bool OptionValues::get_bool(std::string_view name) const {
  const auto value = find_bool(name);
  if (!value) bug(name, "has no value");
  return *value;
}

const std::vector<std::string>& OptionValues::get_list(std::string_view name) const {
  return entry(name, OptionType::kList).texts;
}

std::string OptionValues::text(std::string_view name) const {
  const Entry& found = entry(name);
  return found.source == Source::kUnset ? std::string() : found.texts.front();
}

std::vector<std::string> forwarded_arguments(const OptionValues& parent, Binary child) {
  std::vector<std::string> out;
  for (const OptionSpec& spec : option_table()) {
    if ((spec.binaries & bit_of(parent.binary())) == 0 || spec.name.empty() || spec.secret)
      continue;
    const OptionSpec* other = same_option(spec, child);
    if (other == nullptr || !parent.has_value(spec.name) || spec.name == "model-id") continue;
    const std::string flag = "--" + std::string(spec.name);
    if (spec.type == OptionType::kFlag) {
      if (parent.get_bool(spec.name)) out.push_back(flag);
    } else if (spec.type == OptionType::kList) {
      for (const std::string& text : parent.get_list(spec.name)) {
        out.push_back(std::string(flag).append("=").append(text));
      }
    } else if (parent.is_set(spec.name) || other->default_value != spec.default_value) {
      out.push_back(flag + "=" + parent.text(spec.name));
    }
  }
  return out;
}

std::vector<std::string> forwarded_environment(const OptionValues& parent, Binary child) {
  std::vector<std::string> out;
  for (const OptionSpec& spec : option_table()) {
    if ((spec.binaries & bit_of(parent.binary())) == 0 || !spec.secret || spec.env.empty())
      continue;
    if (same_option(spec, child) == nullptr || !parent.has_value(spec.name)) continue;
    out.push_back(std::string(spec.env) + "=" + parent.text(spec.name));
  }
  return out;
}

}  // namespace coxswain::options
