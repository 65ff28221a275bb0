#pragma once
// FakeCodec: a TextCodec whose tokens are single bytes, and the settings of a FakeRunner that speaks it.
//
// Thread rule: any thread.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <coxswain/text_codec.h>

#include "batch/testing/fake_runner.h"

namespace coxswain::rpc::testing {

inline constexpr TokenId kBeginToken = 1;              // special, no text
inline constexpr TokenId kEndToken = 2;                // special, the EOS
inline constexpr std::uint32_t kFakeVocabulary = 300;  // id 10 + b is the byte b

// 64 blocks of 4 positions in one group, every capability, epoch 77; the tokens sampled are the letters a
// to z. The rules of our own scheduler are not checked: stock routers plan otherwise.
batch::testing::FakeRunnerOptions fake_shard_options();

// What a runner of these settings says to `prompt`, greedily.
batch::testing::ExpectedOutput expected_output(std::vector<TokenId> prompt,
                                               std::uint32_t max_new_tokens);

class FakeCodec : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      bool add_special_tokens) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override;
  std::unique_ptr<Stream> stream(std::span<const TokenId> context,
                                 bool skip_special) const override;
  std::string token_text(TokenId id) const override;
  bool is_special(TokenId id) const override { return id == kBeginToken || id == kEndToken; }
};

}  // namespace coxswain::rpc::testing
