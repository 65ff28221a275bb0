#include "measure/shard.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "rpc/sharded_client.h"
#include "rpc/stock/shard_client.h"
#include "tokenizer/text_codec.h"

namespace coxswain::measure {
namespace {

constexpr std::string_view kText =
    "The river begins in the hills behind the town and reaches the sea two days later. Boats carry "
    "grain, wool and "
    "letters along it, and somebody at every bridge counts them. In spring the water is high and "
    "the pilots are tired; "
    "in autumn it is low, and they tell stories while they wait for rain. ";

// The text is repeated until it is long enough, unless it gives less than a token for so many characters.
constexpr std::size_t kCharactersOfTokenMax = 4096;

}  // namespace

Result<std::vector<TokenId>> make_prompt(const tokenizer::Tokenizer& tokenizer,
                                         std::uint32_t n_tokens) {
  const std::size_t text_bytes_max = kCharactersOfTokenMax * (std::size_t{n_tokens} + 1);
  std::string text(kText);
  for (;;) {
    // One more than is wanted: what a tokenizer puts behind a text is cut off.
    const tokenizer::EncodeOptions options{.tokens_max = std::size_t{n_tokens} + 1,
                                           .wants_offsets = false};
    COXSWAIN_ASSIGN_OR_RETURN(tokenizer::Encoding encoding, tokenizer.encode(text, options));
    if (encoding.ids.size() > n_tokens) {
      encoding.ids.resize(n_tokens);
      return std::move(encoding.ids);
    }
    if (text.size() > text_bytes_max)
      return invalid_argument("the tokenizer makes no prompt of " + std::to_string(n_tokens) +
                              " tokens");
    text += text;
  }
}

Result<std::shared_ptr<StepRunner>> connect_shard(
    const Settings& settings, std::shared_ptr<const tokenizer::Tokenizer> tokenizer) {
  if (settings.shard_protocol != "generate.v3") {
    auto client = rpc::ShardedClient::connect(settings.master_shard_uds_path, {});
    if (client.ok()) return std::shared_ptr<StepRunner>(std::move(client).value());
    const bool is_stock = client.status().code() == Code::kUnimplemented;
    if (!is_stock || settings.shard_protocol == "engine") return client.status();
  }
  rpc::StockClientOptions options;
  options.vocab_size = static_cast<std::uint32_t>(tokenizer->vocab_size());
  const std::uint64_t n_prompt_tokens =
      std::uint64_t{std::ranges::max(settings.batch_sizes)} * settings.sequence_length;
  options.limits.prefill_tokens_max = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(n_prompt_tokens,
                                options.limits.prefill_tokens_max,
                                std::numeric_limits<std::uint32_t>::max()));
  COXSWAIN_ASSIGN_OR_RETURN(
      auto stock,
      rpc::StockShardClient::connect(
          settings.master_shard_uds_path,
          options,
          std::make_shared<const tokenizer::TokenizerCodec>(std::move(tokenizer))));
  return std::shared_ptr<StepRunner>(std::move(stock));
}

}  // namespace coxswain::measure
