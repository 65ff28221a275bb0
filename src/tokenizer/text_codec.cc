#include "tokenizer/text_codec.h"

#include <utility>

namespace coxswain::tokenizer {
namespace {

class TokenizerStream final : public TextCodec::Stream {
 public:
  TokenizerStream(std::shared_ptr<const Tokenizer> tokenizer,
                  std::span<const TokenId> context,
                  bool skip_special)
      : tokenizer_(std::move(tokenizer)),
        decoder_(tokenizer_->incremental(context, skip_special)) {}

  std::string push(TokenId token) override { return decoder_->push(token); }
  std::string finish() override { return decoder_->finish(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;  // outlives the decoder
  std::unique_ptr<Tokenizer::Incremental> decoder_;
};

}  // namespace

TokenizerCodec::TokenizerCodec(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {}

Result<std::vector<TokenId>> TokenizerCodec::encode(std::string_view text,
                                                    bool add_special_tokens) const {
  auto encoding =
      tokenizer_->encode(text, {.add_special_tokens = add_special_tokens, .wants_offsets = false});
  if (!encoding.ok()) return encoding.status();
  return std::move(encoding).value().ids;
}

std::string TokenizerCodec::decode(std::span<const TokenId> ids, bool skip_special) const {
  return tokenizer_->decode(ids, skip_special);
}

std::unique_ptr<TextCodec::Stream> TokenizerCodec::stream(std::span<const TokenId> context,
                                                          bool skip_special) const {
  return std::make_unique<TokenizerStream>(tokenizer_, context, skip_special);
}

std::string TokenizerCodec::token_text(TokenId id) const {
  return tokenizer_->decode({&id, 1}, false);
}

bool TokenizerCodec::is_special(TokenId id) const {
  return tokenizer_->is_special(id);
}

std::string TokenizerCodec::token_bytes(TokenId id) const {
  return tokenizer_->token_bytes(id);
}

}  // namespace coxswain::tokenizer
