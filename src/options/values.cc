#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "options/options.h"

namespace coxswain::options {
namespace {

// The live row of `child` that means the same; null if it has none.
const OptionSpec* same_option(const OptionSpec& spec, Binary child) {
  const OptionSpec* other = find_option(child, spec.key());
  const bool is_own = spec.key() == "config" || spec.key() == "print-config";
  const bool usable = !is_own && other != nullptr && other->type == spec.type &&
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
    case Binary::kBenchmark:
      return "text-generation-benchmark";
  }
  return "";
}

OptionValues::OptionValues(Binary binary) : binary_(binary) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.is_in(binary)) entries_[std::string(spec.key())].spec = &spec;
  }
}

const OptionValues::Entry& OptionValues::entry(std::string_view key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    std::fprintf(stderr,
                 "fatal: %s has no option %.*s\n",
                 std::string(program_name(binary_)).c_str(),
                 static_cast<int>(key.size()),
                 key.data());
    std::abort();
  }
  return found->second;
}

std::span<const OptionSpec> option_table() {
  return kOptionTable;
}

const OptionSpec* find_option(Binary binary, std::string_view name) {
  const auto found = std::ranges::find_if(kOptionTable, [&](const OptionSpec& spec) {
    return spec.is_in(binary) && spec.key() == name;
  });
  return found == kOptionTable.end() ? nullptr : &*found;
}

std::vector<std::string> forwarded_arguments(const OptionValues& parent, Binary child) {
  std::vector<std::string> out;
  for (const OptionSpec& spec : option_table()) {
    if (!spec.is_in(parent.binary()) || spec.name.empty() || spec.secret) continue;
    const OptionSpec* other = same_option(spec, child);
    if (other == nullptr || spec.name == "model-id") continue;
    const bool differs =
        parent.source(spec.name) >= Source::kFile || other->default_value != spec.default_value;
    if (!differs) continue;
    const std::string flag = "--" + std::string(spec.name);
    for (const std::string& text : parent.texts(spec.name)) {
      if (spec.type != OptionType::kFlag) {
        out.push_back(std::string(flag).append("=").append(text));
      } else if (text == "true") {
        out.push_back(flag);
      }
    }
  }
  return out;
}

std::vector<std::string> forwarded_environment(const OptionValues& parent, Binary child) {
  std::vector<std::string> out;
  for (const OptionSpec& spec : option_table()) {
    if (!spec.is_in(parent.binary())) continue;
    const bool read_in_file = spec.name.empty() && parent.source(spec.key()) == Source::kFile;
    if (!(spec.secret || read_in_file) || spec.env_in(child).empty() ||
        same_option(spec, child) == nullptr)
      continue;
    for (const std::string& text : parent.texts(spec.key()))
      out.push_back(std::string(spec.env) + "=" + text);
  }
  return out;
}

}  // namespace coxswain::options
