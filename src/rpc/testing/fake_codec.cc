#include "rpc/testing/fake_codec.h"

namespace coxswain::rpc::testing {

batch::testing::FakeRunnerOptions fake_shard_options() {
  return {.about = {.engine_version = "fake-1",
                    .model_id = "fake",
                    .model_type = "fake",
                    .dtype = "float32",
                    .kernel_set_id = "none",
                    .model_fingerprint = 5,
                    .n_layers = 2,
                    .max_position_embeddings = 200,
                    .eos_token_ids = {kEndToken}},
          .epoch = 77,
          .n_blocks = {64},
          .capabilities = {.plans_chunks = true,
                           .selects_rows = true,
                           .grows_blocks = true,
                           .takes_ids = true,
                           .look_ahead = true,
                           .moves = true},
          .vocab_size = kFakeVocabulary,
          .first_sampled = 10 + 'a',
          .n_sampled = 26,
          .codec = std::make_shared<FakeCodec>(),
          .checks_scheduling = false};
}

batch::testing::ExpectedOutput expected_output(std::vector<TokenId> prompt,
                                               std::uint32_t max_new_tokens) {
  batch::GenerationRequest request;
  request.prompt = std::move(prompt);
  request.stopping.max_new_tokens = max_new_tokens;
  return batch::testing::expected_output(fake_shard_options(), request);
}

Result<std::vector<TokenId>> FakeCodec::encode(std::string_view text,
                                               bool add_special_tokens) const {
  std::vector<TokenId> ids;
  if (add_special_tokens) ids.push_back(kBeginToken);
  for (const char c : text) ids.push_back(10 + static_cast<TokenId>(static_cast<unsigned char>(c)));
  return ids;
}

std::string FakeCodec::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text;
  for (const TokenId id : ids) {
    if (!skip_special || !is_special(id)) text += token_text(id);
  }
  return text;
}

namespace {

class FakeStream final : public TextCodec::Stream {
 public:
  std::string push(TokenId token) override { return FakeCodec().token_text(token); }
  std::string finish() override { return {}; }
};

}  // namespace

std::unique_ptr<TextCodec::Stream> FakeCodec::stream(std::span<const TokenId>, bool) const {
  return std::make_unique<FakeStream>();
}

std::string FakeCodec::token_text(TokenId id) const {
  if (id == kBeginToken) return "<s>";
  if (id == kEndToken) return "</s>";
  return {static_cast<char>(id - 10)};
}

}  // namespace coxswain::rpc::testing
