#pragma once
// Files that options name.
//
// Thread rule: pure functions of their arguments and the file system.

#include <optional>
#include <string>

#include "options/options.h"
#include "serve/start_failure.h"

namespace coxswain::serve {

// The file that replaces tokenizer_config.json; empty if there is none, or if the option names a
// chat template alone.
inline std::string tokenizer_config_path(const options::OptionValues& values) {
  std::string path = values.get<"tokenizer-config-path">().value_or("");
  return path.ends_with(".json") ? path : std::string();
}

// What is wrong with the file of --tokenizer-config-path, before anything else is read; empty if nothing.
std::optional<StartFailure> check_text_files(const options::OptionValues& values);

// What is wrong with the options of keys and TLS, with their files, and with what stands in these.
std::optional<StartFailure> check_security_files(const options::OptionValues& values);

}  // namespace coxswain::serve
