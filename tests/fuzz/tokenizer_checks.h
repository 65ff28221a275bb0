#pragma once
// What every tokenizer must do with every text, whatever file it was read from.
//
// Thread rule: one thread.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/fuzz_input.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace coxswain::fuzz {

inline constexpr std::size_t kTextBytesMax = 256;
inline constexpr std::string_view kSampleText =
    "Hello, w\xC3\xB6rld's 1234 tests!\r\n\t  It\xE2\x80\x99s \xE4\xBD\xA0\xE5\xA5\xBD "
    "<s>\xF0\x9F\x98\x80\xFF end</s> ";

// Ids of a file up to 99999: every table is as long as the largest one.
inline bool has_long_number(std::string_view text) {
  std::size_t n_digits = 0;
  for (const char c : text) {
    n_digits = c >= '0' && c <= '9' ? n_digits + 1 : 0;
    if (n_digits > 5) return true;
  }
  return false;
}

inline bool is_valid_utf8(std::string_view text) {
  return tokenizer::valid_utf8_prefix(text) == text.size();
}

inline std::string decode_in_steps(const tokenizer::Tokenizer& tokenizer,
                                   std::span<const TokenId> ids,
                                   bool skip_special) {
  const auto stream = tokenizer.incremental({}, skip_special);
  std::string out;
  for (const TokenId id : ids) {
    const std::string piece = stream->push(id);
    require(is_valid_utf8(piece), "a piece of a stream has whole characters");
    out += piece;
  }
  return out + stream->finish();
}

inline void check_names(const tokenizer::Tokenizer& tokenizer) {
  constexpr std::size_t kIdsMax = 64;
  const std::size_t end = std::min(tokenizer.vocab_size(), kIdsMax);
  for (TokenId id = -1; id <= static_cast<TokenId>(end); ++id) {
    if (const auto found = tokenizer.token_to_id(tokenizer.token(id)))
      require(*found >= 0 && static_cast<std::size_t>(*found) < tokenizer.vocab_size(),
              "an id is of the vocabulary");
    const TokenId one[] = {id};
    require(is_valid_utf8(tokenizer.decode(one, false)), "decoded text is UTF-8");
  }
}

inline void check_limit(const tokenizer::Tokenizer& tokenizer,
                        std::string_view text,
                        const std::vector<TokenId>& ids) {
  tokenizer::EncodeOptions options;
  options.tokens_max = ids.size() / 2;
  const auto cut = tokenizer.encode(text, options);
  require(cut.ok(), "a limit makes no error");
  require(cut->truncated == (ids.size() > options.tokens_max), "a limit is noticed when it is hit");
  require(cut->truncated || cut->ids == ids, "a limit that is not hit changes nothing");
  options.tokens_max = ids.size();
  const auto whole = tokenizer.encode(text, options);
  require(whole.ok() && !whole->truncated && whole->ids == ids,
          "a limit that just holds is no cut");
}

inline void check_text(const tokenizer::Tokenizer& tokenizer, std::string_view whole_text) {
  const std::string_view text = whole_text.substr(0, kTextBytesMax);
  const auto encoding = tokenizer.encode(text, {});
  if (!encoding.ok()) {
    require(!encoding.status().message().empty(), "an error says why");
    return;
  }
  require(encoding->offsets.size() == encoding->ids.size(), "every token has an offset");
  for (const TokenId id : encoding->ids)
    require(id >= 0 && static_cast<std::size_t>(id) < tokenizer.vocab_size(),
            "ids are of the vocabulary");
  for (const TextSpan& span : encoding->offsets)
    require(span.begin <= span.end && span.end <= text.size(), "offsets are inside the text");
  const auto again = tokenizer.encode(text, {});
  require(again.ok() && again->ids == encoding->ids && again->offsets == encoding->offsets,
          "encoding twice gives the same");
  check_limit(tokenizer, text, encoding->ids);

  const TextSpan all[] = {{0, text.size()}};
  tokenizer::EncodeOptions untrusted;
  untrusted.untrusted = all;
  untrusted.add_special_tokens = false;
  require(tokenizer.encode(text, untrusted).ok(), "untrusted text is encoded too");

  for (const bool skip_special : {false, true}) {
    const std::string decoded = tokenizer.decode(encoding->ids, skip_special);
    require(is_valid_utf8(decoded), "decoded text is UTF-8");
    require(decode_in_steps(tokenizer, encoding->ids, skip_special) == decoded,
            "a stream decodes to the same text");
  }
}

// What was read from a file, put together as loading does, with a sample and with `text`. Parts
// that do not fit together are no finding.
inline void check_parts(Result<tokenizer::TokenizerParts> parts, std::string_view text) {
  if (!parts.ok()) return require(!parts.status().message().empty(), "an error says why");
  if (!parts->added.prepare(parts->normalizer.get()).ok()) return;
  const tokenizer::PipelineTokenizer tokenizer(std::move(parts).value());
  check_names(tokenizer);
  check_text(tokenizer, kSampleText);
  check_text(tokenizer, text);
}

}  // namespace coxswain::fuzz
