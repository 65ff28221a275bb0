#pragma once
// Between the values of step_runner.h and the messages of generate.v3, as a client writes and reads
// them. stock_request.h has the other direction.
//
// Thread rule: pure functions.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

namespace generate::v3 {
class Generation;
class Request;
class WarmupRequest;
}  // namespace generate::v3

namespace coxswain::rpc {

// A prompt as a shard that takes text must be given it.
struct PromptText {
  std::string text;
  bool add_special_tokens = false;
};

// The text that a tokenizer like `codec` reads as exactly `ids`. Errors: kInvalidArgument if there
// is none (ids chosen by hand, or a user's text that spells a special token).
Result<PromptText> text_of_prompt(std::span<const TokenId> ids, const TextCodec& codec);

// `blocks`: for the prompt, all but the last of its output and what the shard may guess beyond. Errors:
// kInvalidArgument naming the parameter that the protocol cannot carry; those of text_of_prompt().
Status to_stock_request(const SequenceSpec& spec,
                        std::span<const BlockId> blocks,
                        const RunnerInfo& shard,
                        const TextCodec& codec,
                        generate::v3::Request& to);

// Tokens of the sequence, and its end if one of them is the last. Errors: kInternal if the answer is not that.
Result<SequenceResult> from_stock(const generate::v3::Generation& from, const SequenceSpec& spec);

struct WarmupLimits {
  std::uint32_t prefill_tokens_max = 4096;
  std::uint32_t batch_size_max = 0;    // 0 = no limit
  std::uint32_t input_tokens_max = 0;  // 0 = the shard decides
  std::uint32_t total_tokens_max = 0;  // 0 = the shard decides
};

// Prompts that fill the budget, with every parameter switched on, so that the shard sees its
// highest use of memory.
void to_warmup_request(const WarmupLimits& limits, generate::v3::WarmupRequest& to);

}  // namespace coxswain::rpc
