#pragma once
// The one place that knows CLI11: splits a command line into named texts. No meaning, no defaults, no environment.
//
// Thread rule: pure function.

#include <map>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "options/options.h"

namespace coxswain::options {

struct CommandLine {
  bool help = false;
  bool help_all = false;
  bool version = false;
  std::map<std::string, std::vector<std::string>, std::less<>> texts;  // a flag: one "true"
  std::vector<std::string> words;                                      // what belongs to no option
};

// Errors: kInvalidArgument naming the argument that is unknown (with the option that was probably meant), incomplete
// or given twice.
Result<CommandLine> split_command_line(Binary binary, int argc, const char* const* argv);

}  // namespace coxswain::options
