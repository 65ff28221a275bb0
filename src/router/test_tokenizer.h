#pragma once
// A tokenizer for tests: one token for each byte, 256 = <s> (added in front), 257 = </s>, which
// text may contain unless a user wrote it.

#include <algorithm>
#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace coxswain::router {

class ByteTokenizer final : public tokenizer::Tokenizer {
 public:
  static constexpr TokenId kBos = 256;
  static constexpr TokenId kEos = 257;

  Result<tokenizer::Encoding> encode(std::string_view text,
                                     const tokenizer::EncodeOptions& options) const override {
    tokenizer::Encoding out;
    if (options.add_special_tokens) add(out, kBos, {0, 0});
    for (std::size_t i = 0; i < text.size();) {
      if (out.ids.size() > options.tokens_max) {
        out.truncated = true;
        break;
      }
      const TextSpan eos{i, i + 4};
      if (text.substr(i).starts_with("</s>") && !touches(options, eos)) {
        add(out, kEos, eos);
        i += 4;
        continue;
      }
      add(out, static_cast<unsigned char>(text[i]), {i, i + 1});
      ++i;
    }
    return out;
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string out;
    for (TokenId id : ids) out += token(id);
    return out;
  }
  std::size_t vocab_size() const override { return 258; }
  std::optional<TokenId> token_to_id(std::string_view) const override { return std::nullopt; }
  std::string token(TokenId id) const override {
    return id >= 0 && id < 256 ? std::string(1, static_cast<char>(id)) : std::string();
  }
  bool is_special(TokenId id) const override { return id >= 256; }
  std::string token_bytes(TokenId id) const override { return token(id); }
  std::optional<TokenId> eos_id() const override { return kEos; }
  std::string bos_token() const override { return "<s>"; }
  std::string eos_token() const override { return "</s>"; }
  // Of ASCII only: every byte is a character.
  std::unique_ptr<Incremental> incremental(std::span<const TokenId>, bool) const override {
    return std::make_unique<ByteDecoder>();
  }

 private:
  struct ByteDecoder final : Incremental {
    std::string push(TokenId id) override { return ByteTokenizer().token(id); }
    std::string finish() override { return {}; }
  };
  static void add(tokenizer::Encoding& out, TokenId id, TextSpan span) {
    out.ids.push_back(id);
    out.offsets.push_back(span);
  }
  static bool touches(const tokenizer::EncodeOptions& options, TextSpan span) {
    return std::any_of(options.untrusted.begin(), options.untrusted.end(), [&](TextSpan u) {
      return u.begin < span.end && span.begin < u.end;
    });
  }
};

}  // namespace coxswain::router
