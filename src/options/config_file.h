#pragma once
// The file of --config: names of options with their values, one a line. A strict reader of a small part of YAML 1.2;
// what it accepts is the same to any reader of YAML that takes scalars as texts (docs/config.md).
//
//   model-id: /models/Qwen2.5-0.5B-Instruct   # plain, 'quoted' or "quoted"
//   cors-allow-origin:      # lists are of one level
//     - https://a.example
//
// It knows no options: which names there are, and of what type, is the table's.
//
// Thread rule: pure functions of their arguments and the file system.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::options {

struct ConfigEntry {
  std::size_t line = 0;  // from 1
  bool is_list = false;
  std::vector<std::string> texts;  // one, or a list's
};

struct ConfigFile {
  std::string path;
  std::map<std::string, ConfigEntry, std::less<>> entries;

  // "serve.yaml:3"
  std::string place(std::size_t line) const;
};

// Errors: kInvalidArgument that begins with the place. `path` is for messages.
Result<ConfigFile> parse_config(std::string_view text, std::string path);

// Errors: as parse_config, and for a file that cannot be read or is larger than 1 MiB.
Result<ConfigFile> read_config(const std::string& path);

// `text` as parse_config reads it back: plain where no reader of YAML takes it for a number, a truth or a structure.
// REQUIRES: UTF-8.
std::string config_scalar(std::string_view text);

}  // namespace coxswain::options
