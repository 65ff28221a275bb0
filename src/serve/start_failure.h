#pragma once
// StartFailure: why a program could not start, in the two lines that it prints on standard error:
//
//   Error: Variant("cause")     as TGI prints errors; the cause is one quoted line
//   cure                        what to do about it
//
// The launcher reads both from its children and prints them as its own last words.
//
// Thread rule: values.

#include <optional>
#include <string>
#include <string_view>

#include <coxswain/status.h>

namespace coxswain::serve {

// Exit codes of all programs.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitModel = 3;
inline constexpr int kExitGaveUp = 4;

inline constexpr const char* kOptionCure = "Change that option, or leave it out.";

struct StartFailure {
  std::string variant;  // TGI's name of the error: "ArgumentValidation", ...
  std::string cause;    // one line
  std::string cure;     // one line; may be empty
  int exit_code = kExitFailure;
};

// A message of the form "cause; cure" is taken apart at its last "; "; otherwise `cure` is used.
StartFailure make_start_failure(std::string variant,
                                const Status& status,
                                std::string cure,
                                int exit_code);

// Both lines, each with its line feed.
std::string to_lines(const StartFailure& failure);

// The first of the lines; empty if it is none.
std::optional<StartFailure> read_failure_line(std::string_view line);

}  // namespace coxswain::serve
