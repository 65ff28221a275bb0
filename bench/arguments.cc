#include "arguments.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace coxswain::bench {

Arguments::Arguments(int argc, char** argv, std::string_view help) : help_(help) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      std::fwrite(help_.data(), 1, help_.size(), stdout);
      std::exit(0);
    }
    if (!argument.starts_with("-") || argument == "-") {
      words_.emplace_back(argument);
      continue;
    }
    if (!argument.starts_with("--")) refuse("unknown option " + std::string(argument));
    const std::size_t equals = argument.find('=');
    const std::string name(argument.substr(2, equals == argument.npos ? equals : equals - 2));
    if (equals != argument.npos) {
      options_[name] = argument.substr(equals + 1);
    } else if (i + 1 < argc && !std::string_view(argv[i + 1]).starts_with("--")) {
      options_[name] = argv[++i];
    } else {
      refuse("--" + name + " needs a value, or is no option");
    }
  }
}

std::optional<std::string> Arguments::option(std::string_view name) {
  const auto found = options_.find(name);
  if (found == options_.end()) return std::nullopt;
  std::string value = std::move(found->second);
  options_.erase(found);
  return value;
}

std::string Arguments::text(std::string_view name, std::string otherwise) {
  return option(name).value_or(std::move(otherwise));
}

std::string Arguments::one_of(std::string_view name,
                              std::initializer_list<std::string_view> values,
                              std::string otherwise) {
  const auto given = option(name);
  if (!given) return otherwise;
  std::string listed;
  for (const std::string_view value : values) {
    if (*given == value) return *given;
    listed.append(listed.empty() ? "" : ", ").append(value);
  }
  refuse("--" + std::string(name) + " must be one of: " + listed);
}

std::uint32_t Arguments::count(std::string_view name, std::uint32_t otherwise) {
  const auto given = option(name);
  return given ? to_count("--" + std::string(name), *given) : otherwise;
}

std::optional<std::string> Arguments::word() {
  if (next_word_ == words_.size()) return std::nullopt;
  return words_[next_word_++];
}

std::string Arguments::required_word(std::string_view what) {
  if (auto given = word()) return *std::move(given);
  finish();
  refuse(std::string(what) + " is missing");
}

std::uint32_t Arguments::count_word(std::string_view what, std::uint32_t otherwise) {
  const auto given = word();
  return given ? to_count(what, *given) : otherwise;
}

void Arguments::finish() const {
  if (!options_.empty()) refuse("unknown option --" + options_.begin()->first);
  if (next_word_ < words_.size()) refuse("one argument too many: " + words_[next_word_]);
}

void Arguments::refuse(const std::string& what) const {
  std::fprintf(stderr, "%s (see --help)\n", what.c_str());
  std::exit(2);
}

std::uint32_t Arguments::to_count(std::string_view what, const std::string& text) const {
  std::uint32_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out == 0) {
    refuse(std::string(what) + " must be a whole number of at least 1, not " + text);
  }
  return out;
}

}  // namespace coxswain::bench
