#pragma once
// LocalModel: a model of this machine, opened: weights, KV cache, tokenizer and chat template.
//
// A LocalModel is a handle, cheap to copy; the model goes when the last handle and the last engine over it are gone.
// One engine (Executor, Stepper) at a time computes with it: a second one refuses every request by name.
//
// Memory is planned before it is taken (memory_plan()) and does not grow with load. Nothing is global but the table of
// kernels; no signal handler is set, and threads end with the model.
//
// Thread rule: open_model() any thread; const methods of a LocalModel any thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/chat.h>
#include <coxswain/export.h>
#include <coxswain/logits_processor.h>
#include <coxswain/request.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>
#include <coxswain/types.h>

namespace coxswain {

namespace library {
struct ModelState;
}

struct LocalModelOptions {
  std::string dtype = {};  // "float32", "bfloat16", "float16"; empty = as stored
  // "int8", "int4", "int4-g128": made at load. Or the form in which weights are stored ("gptq"). Empty = off.
  std::string quantize = {};
  // As dtype, or "int8", "int4", "fp8_e4m3fn", "fp8_e5m2"; empty = the weights', bfloat16 where they are quantised.
  std::string kv_dtype = {};
  // Where packed weights are kept for later opens, and the most bytes of the folder, of which those used longest ago go
  // first; empty = nowhere, 0 = no limit. Whoever can write there decides what is computed.
  std::string weights_cache_dir = {};
  std::uint64_t weights_cache_bytes_max = 0;
  std::uint32_t block_tokens = 16;  // positions of a KV block, a power of two
  std::size_t n_threads = 0;        // 0 = one for each physical core that this process may use
  bool pin_threads = false;         // binds them to cores; for the one busy process of a machine
  std::string isa = {};             // forces a kernel set; empty = the best one
  // Bytes of the KV cache; 0 = what is useful and the memory budget leaves.
  std::uint64_t kv_bytes = 0;
  double kv_fraction = 1.0;  // of what the budget leaves, where kv_bytes is 0; (0, 1]
  // Layer i attends to the last max_attention_window[i % size] positions at most, or to the model's own window, if that
  // is less; 0 = no limit for that layer, empty = for none. Layers with a window attend to the first sink_token_length
  // positions, too (StreamingLLM, Xiao et al. 2023; positions keep their numbers).
  std::vector<std::uint32_t> max_attention_window = {};
  std::uint32_t sink_token_length = 0;
  // Bytes that all may take together; 0 = what the machine and its control groups have available.
  std::uint64_t memory_budget_bytes = 0;
  // Of KV blocks on their way out of the cache or into it (Session::save(), Sessions::restore()); 0 = they stay where
  // they are, and sessions are saved as token ids.
  std::uint64_t attachment_bytes_max = std::uint64_t{32} << 20;
  std::uint32_t total_tokens_max = 0;       // of one request; 0 = what model and cache allow
  std::uint32_t prefill_tokens_max = 4096;  // prompt tokens of one step
  std::uint32_t batch_size_max = 256;       // sequences of one step
  // Tokens guessed ahead for a sequence in a step, at most, where that pays: the same tokens, faster. 0 = none.
  std::uint32_t draft_tokens_max = 0;
  // Bytes of logits and hidden states that requests may hold at once (Request::outputs); 0 = they may ask for none.
  std::uint64_t output_bytes_max = 0;
  // SamplingParams::n_top_tokens; at most kLocalTopTokensMax.
  std::uint32_t top_tokens_max = kTopTokensMax;
  // What requests may name as SamplingParams::logits_processor.
  std::map<std::string, std::shared_ptr<LogitsProcessor>> logits_processors = {};
  // A tokenizer_config.json or chat template in the place of those in the folder; empty = none.
  std::string tokenizer_config_path = {};
  // How the model writes calls of functions and thoughts, by name (docs/tools.md); empty = as its template shows.
  std::string tool_call_parser = {};
  std::string reasoning_parser = {};
  // Bytes of weights read so far, and in all.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
};

struct TokenizeOptions {
  bool add_special_tokens = true;  // what the tokenizer puts around a text (BOS)
  // Sorted, disjoint bytes of the text in which no special token is read.
  std::vector<TextSpan> untrusted = {};
};

class COXSWAIN_EXPORT LocalModel {
 public:
  explicit LocalModel(std::shared_ptr<library::ModelState> state);

  // Errors: kInvalidArgument for spans that are not sorted or leave the text; those of the tokenizer.
  Result<Prompt> tokenize(std::string_view text, const TokenizeOptions& options = {}) const;
  // The conversation as the model's template writes it, up to where the answer begins; if the last message is the
  // assistant's, that answer is continued. What the contents hold never becomes a special token. Errors:
  // kTemplateError: the model has no template, or it refuses the conversation.
  Result<Prompt> chat(const std::vector<ChatMessage>& messages) const;
  // The same with functions that may be called, a form of the answer or a bound on thoughts (chat.h). Errors: these,
  // and kInvalidArgument, kUnimplemented and kResourceExhausted naming a field of `options`.
  Result<ChatTurn> chat(const std::vector<ChatMessage>& messages, const ChatOptions& options) const;

  std::shared_ptr<const TextCodec> codec() const;
  RunnerInfo info() const;
  // For a program with an engine of its own, which is then the one that computes with the model.
  std::shared_ptr<StepRunner> runner() const;
  // Who gets which bytes, a line each.
  std::string memory_plan() const;
  // What is odd about the model's files but does not keep it from being served.
  std::vector<std::string> warnings() const;

  // The library's own.
  const std::shared_ptr<library::ModelState>& state() const { return state_; }

 private:
  std::shared_ptr<library::ModelState> state_;
};

// `path`: a folder with config.json, weights and tokenizer, or a GGUF file. Returns once the model can compute.
// Errors: those of the model's files (kNotFound, kInvalidArgument, kDataLoss, kUnimplemented by name);
// kInvalidArgument for an option; kResourceExhausted says how much memory is missing and which option to lower.
COXSWAIN_EXPORT Result<LocalModel> open_model(const std::string& path,
                                              const LocalModelOptions& options = {});

}  // namespace coxswain
