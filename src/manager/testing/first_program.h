#pragma once
// A program over BatchManager as a user would write it first.
//
// Thread rule: run_first_program() blocks until the request is answered.

#include <string>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::manager::testing {

struct ProgramResult {
  std::vector<TokenId> ids;  // that the program was given
  std::string error;
  std::vector<std::string> stats;
};

// Streams 32 tokens behind `ids` from the model in `folder`.
ProgramResult run_first_program(const std::string& folder, const std::vector<TokenId>& ids);

}  // namespace coxswain::manager::testing
