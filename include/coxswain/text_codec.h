#pragma once
// TextCodec: text <-> token ids for code that may not include a tokenizer (the stop matcher's
// owner, the wire service that must answer stock routers with text). Implemented in `tokenizer`.
//
// Thread rule: const methods may be called from any thread; a stream decoder belongs to one thread.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain {

class TextCodec {
 public:
  // Decodes token by token. Text comes out only when its characters are complete.
  class Stream {
   public:
    virtual ~Stream() = default;
    virtual std::string push(TokenId token) = 0;  // what `token` adds; may be empty
    virtual std::string finish() = 0;             // what is left, broken bytes as U+FFFD
  };

  virtual ~TextCodec() = default;
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              bool add_special_tokens) const = 0;
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special) const = 0;
  // `context`: ids before the stream, for decoders whose output depends on the token before (leading blanks).
  virtual std::unique_ptr<Stream> stream(std::span<const TokenId> context,
                                         bool skip_special) const = 0;
  virtual std::string token_text(TokenId id) const = 0;
  virtual bool is_special(TokenId id) const = 0;
  // What the token adds to a text in the midst of it, whole characters or not; empty for special tokens and for ids
  // that add nothing.
  virtual std::string token_bytes(TokenId id) const {
    return is_special(id) ? std::string() : token_text(id);
  }
};

}  // namespace coxswain
