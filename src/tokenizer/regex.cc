#include "tokenizer/regex.h"

#include "base/utf8.h"
#include "tokenizer/regex_syntax.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace coxswain::tokenizer {
namespace {

// Per match attempt. A sound split pattern needs a few steps for each byte of its match.
constexpr std::uint32_t kMatchStepsMax = 50'000'000;
constexpr std::uint32_t kDepthMax = 1'000'000;
constexpr std::uint32_t kHeapKibibytesMax = 256 * 1024;
constexpr std::size_t kPatternBytesMax = 64 * 1024;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

std::string error_text(int code) {
  std::string text(256, '\0');
  const int n =
      pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, FreeCode> code;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
};

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax)
    return invalid_argument("a pattern of " + std::to_string(pattern.size()) +
                            " bytes is longer than " + std::to_string(kPatternBytesMax));
  COXSWAIN_ASSIGN_OR_RETURN(const std::string translated, to_pcre2(pattern));
  int error = 0;
  PCRE2_SIZE at = 0;
  auto code = std::make_shared<Code>();
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                 translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                 &error,
                                 &at,
                                 nullptr));
  if (!code->code)
    return invalid_argument("bad regular expression at offset " + std::to_string(at) + ": " +
                            error_text(error));
  pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);  // without it the interpreter runs
  code->context.reset(pcre2_match_context_create(nullptr));
  if (!code->context)
    return Status(coxswain::Code::kResourceExhausted, "no memory for a regular expression");
  pcre2_set_match_limit(code->context.get(), kMatchStepsMax);
  pcre2_set_depth_limit(code->context.get(), kDepthMax);
  pcre2_set_heap_limit(code->context.get(), kHeapKibibytesMax);
  return Regex(std::move(code));
}

Result<std::vector<TextSpan>> Regex::find_all(std::string_view text) const {
  std::size_t at = 0;
  return find_some(text, text.size() + 1, at);
}

Result<std::vector<TextSpan>> Regex::find_some(std::string_view text,
                                               std::size_t n_max,
                                               std::size_t& at) const {
  std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(code_->code.get(), nullptr));
  std::vector<TextSpan> out;
  if (!match)
    return Status(coxswain::Code::kResourceExhausted, "no memory for a regular expression");
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  if (text.empty()) return out;
  std::size_t last_end = at > 0 ? at : text.size() + 1;  // of the match before
  while (at <= text.size()) {
    if (out.size() >= n_max && out.back().end > out.back().begin) return out;
    const auto run = [&](std::uint32_t options) {
      return pcre2_match(
          code_->code.get(), subject, text.size(), at, options, match.get(), code_->context.get());
    };
    int n = run(PCRE2_NO_UTF_CHECK);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) n = run(PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
    if (n == PCRE2_ERROR_NOMATCH) break;
    if (n < 0)
      return Status(coxswain::Code::kResourceExhausted,
                    ErrorKind::kValidation,
                    "a regular expression of the tokenizer gave up: " + error_text(n));
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match.get());
    if (found[1] > found[0] || found[1] != last_end) {
      out.push_back({found[0], found[1]});
      at = last_end = found[1];
      continue;
    }
    ++at;  // an empty match right behind another one does not count
    while (at < text.size() && base::is_continuation(text[at])) ++at;
  }
  at = text.size();
  return out;
}

}  // namespace coxswain::tokenizer
