#pragma once
// The words behind `text-generation-server quantize` and `coxswain quantize`.
//
// Thread rule: the thread of main().

#include <span>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "quantize/quantize.h"

namespace coxswain::quantize {

struct Command {
  bool asks_for_help = false;
  std::string revision = {};
  std::string log_level = "info";
  bool log_json = false;
  QuantizeOptions options = {};
};

std::string_view usage();

// Errors: kInvalidArgument, naming the word and what it takes; kUnimplemented, naming what does not go together.
Result<Command> parse_command(std::span<const std::string_view> words);

}  // namespace coxswain::quantize
