#pragma once
// Regex: a regular expression of a stranger's file, run on PCRE2 with limits of steps, depth and heap.
//
// Syntax is Oniguruma's (the reference's engine) as far as tokenizer files use it: regex_syntax.h.
// Thread rule: immutable; match data belongs to the caller's thread.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain::tokenizer {

class Regex {
 public:
  // Errors: kInvalidArgument with PCRE2's message and the place in the pattern.
  static Result<Regex> compile(std::string_view pattern);

  // All matches from left to right, without overlap. An empty match counts unless it lies right
  // behind another match, as in the reference; an empty text has none.
  // REQUIRES: valid UTF-8. Errors: kResourceExhausted if a limit was hit.
  Result<std::vector<TextSpan>> find_all(std::string_view text) const;
  // The next n_max of them (one more where that one is empty) from byte `at` on, which is 0 or
  // where the last call left it: at the end of its last match, or of the text.
  Result<std::vector<TextSpan>> find_some(std::string_view text,
                                          std::size_t n_max,
                                          std::size_t& at) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

}  // namespace coxswain::tokenizer
