#pragma once
// TokenizerCodec: the public TextCodec over a Tokenizer.
// Thread rule: as TextCodec: const methods from any thread, a stream belongs to one.

#include <memory>

#include <coxswain/text_codec.h>

#include "tokenizer/tokenizer.h"

namespace coxswain::tokenizer {

class TokenizerCodec final : public TextCodec {
 public:
  // REQUIRES: tokenizer is not null.
  explicit TokenizerCodec(std::shared_ptr<const Tokenizer> tokenizer);

  Result<std::vector<TokenId>> encode(std::string_view text,
                                      bool add_special_tokens) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override;
  std::unique_ptr<Stream> stream(std::span<const TokenId> context,
                                 bool skip_special) const override;
  std::string token_text(TokenId id) const override;
  bool is_special(TokenId id) const override;
  std::string token_bytes(TokenId id) const override;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace coxswain::tokenizer
