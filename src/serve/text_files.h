#pragma once
// Which of the files named by --tokenizer-config-path the tokenizer reads.
//
// Thread rule: pure function.

#include <string>

#include "options/options.h"

namespace coxswain::serve {

// The file that replaces tokenizer_config.json; empty if there is none, or if the option names a
// chat template alone.
inline std::string tokenizer_config_path(const options::OptionValues& values) {
  std::string path = values.get<"tokenizer-config-path">().value_or("");
  return path.ends_with(".json") ? path : std::string();
}

}  // namespace coxswain::serve
