#include "rpc/stock/request.h"

#include <algorithm>
#include <limits>
#include <string>

#include <proto/generate_v3.pb.h>

#include "request/sampling_rules.h"

namespace coxswain::rpc {

namespace {

namespace v3 = ::generate::v3;

constexpr int kStopSequencesMax = 1024;

Status wrong(const std::string& field, const std::string& rule, const std::string& given) {
  return invalid_argument("`" + field + "` must be " + rule + ". Given: " + given, field);
}

// The warm-up of a stock router sends an image to every model, so that one with eyes shows what it needs.
Result<std::string> text_of(const v3::Request& request, StockUse use) {
  if (!request.has_input_chunks()) return request.inputs();
  const std::string* text = nullptr;
  for (const v3::InputChunk& chunk : request.input_chunks().chunks()) {
    if (!chunk.has_text()) {
      if (use == StockUse::kWarmup) continue;
      return invalid_argument(chunk.has_image()
                                  ? "`input_chunks` has an image of type '" +
                                        chunk.image().mimetype() + "': this model reads text"
                                  : "`input_chunks` has a chunk of a kind that is not known here",
                              "input_chunks");
    }
    if (text != nullptr)
      return invalid_argument("Request contained more than one text chunk", "input_chunks");
    text = &chunk.text();
  }
  if (text == nullptr) return invalid_argument("Request without a text chunk", "input_chunks");
  return *text;
}

// Keeps the last `limit` tokens. Special tokens that the tokenizer puts around a text stay: the
// text between them is cut.
Result<std::vector<TokenId>> tokenize(const v3::Request& request,
                                      const TextCodec& codec,
                                      StockUse use) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::string text, text_of(request, use));
  const std::size_t limit = request.truncate();
  if (limit == 0) return wrong("truncate", "> 0", "0");
  COXSWAIN_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                            codec.encode(text, request.add_special_tokens()));
  if (ids.size() <= limit) return ids;
  std::vector<TokenId> plain = ids;
  if (request.add_special_tokens()) {
    COXSWAIN_ASSIGN_OR_RETURN(plain, codec.encode(text, false));
  }
  const auto inner = std::search(ids.begin(), ids.end(), plain.begin(), plain.end());
  const std::size_t n_special = ids.size() - std::min(ids.size(), plain.size());
  if (inner == ids.end() || n_special >= limit) {
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(limit));
    return ids;
  }
  ids.erase(inner, inner + static_cast<std::ptrdiff_t>(ids.size() - limit));
  return ids;
}

// A stock router sends a regular expression, whatever its client sent.
Result<CompiledGrammar> grammar_of(const v3::NextTokenChooserParameters& from,
                                   grammar::Compiler& grammars) {
  if (from.grammar().empty()) return CompiledGrammar();
  grammar::Source source{.text = from.grammar(), .schema = grammar::kTgiSchema};
  if (from.grammar_type() == v3::GRAMMAR_TYPE_REGEX) {
    source.kind = grammar::Source::Kind::kRegex;
  } else if (from.grammar_type() != v3::GRAMMAR_TYPE_JSON) {
    return wrong("grammar_type", "1 or 2 beside `grammar`", std::to_string(from.grammar_type()));
  }
  auto compiled = grammars.compile(source);
  if (compiled.ok()) return compiled;
  return Status(compiled.status().code(),
                ErrorKind::kValidation,
                "`grammar` is not valid: " + compiled.status().message(),
                "grammar");
}

Result<SamplingParams> sampling_of(const v3::Request& message,
                                   std::uint32_t vocab_size,
                                   grammar::Compiler& grammars) {
  const v3::NextTokenChooserParameters& from = message.parameters();
  SamplingParams to;
  to.temperature = from.temperature();
  to.top_k = static_cast<std::int32_t>(std::min<std::uint32_t>(
      from.top_k(), static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max())));
  to.top_p = from.top_p();
  to.typical_p = from.typical_p();
  to.repetition_penalty = from.repetition_penalty();
  to.relative_frequency_penalty = from.frequency_penalty();
  to.seed = from.seed();
  to.n_top_tokens = message.top_n_tokens();
  to.watermark = from.watermark();
  COXSWAIN_RETURN_IF_ERROR(request::check_sampling(to, vocab_size));
  COXSWAIN_ASSIGN_OR_RETURN(to.grammar, grammar_of(from, grammars));
  // A stock router that asks for any warper expects to sample.
  to.do_sample = from.do_sample() || to.temperature != 1.0F || to.top_k != 0 || to.top_p < 1.0F ||
                 to.typical_p < 1.0F;
  return to;
}

Result<StoppingParams> stopping_of(const v3::Request& request) {
  const v3::StoppingCriteriaParameters& from = request.stopping_parameters();
  if (from.max_new_tokens() == 0) return wrong("max_new_tokens", "strictly positive", "0");
  if (from.stop_sequences_size() > kStopSequencesMax) {
    return wrong("stop_sequences",
                 "a list of at most " + std::to_string(kStopSequencesMax),
                 std::to_string(from.stop_sequences_size()));
  }
  return StoppingParams{
      .max_new_tokens = from.max_new_tokens(),
      .stop_sequences = {from.stop_sequences().begin(), from.stop_sequences().end()},
      .ignore_eos = from.ignore_eos_token()};
}

// Blocks cover all positions, and every slot is the cell of its position in them.
Status check_blocks(const v3::Request& request, const RunnerInfo& info, std::uint64_t n_positions) {
  const std::uint64_t size = info.block_tokens;
  const auto n_blocks = static_cast<std::uint64_t>(request.blocks_size());
  if (n_blocks * size < n_positions) {
    return wrong("blocks",
                 "enough for " + std::to_string(n_positions) + " tokens",
                 std::to_string(n_blocks) + " blocks");
  }
  if (request.slots_size() == 0) return {};
  const auto n_slots = static_cast<std::uint64_t>(request.slots_size());
  if (n_slots < n_positions || n_slots > n_blocks * size) {
    return wrong("slots",
                 "between " + std::to_string(n_positions) + " and " +
                     std::to_string(n_blocks * size) + " in number",
                 std::to_string(n_slots));
  }
  for (std::uint64_t i = 0; i < n_slots; ++i) {
    const std::uint64_t expected = request.blocks(static_cast<int>(i / size)) * size + i % size;
    if (request.slots(static_cast<int>(i)) != expected) {
      return wrong("slots",
                   "cell " + std::to_string(expected) + " for position " + std::to_string(i),
                   std::to_string(request.slots(static_cast<int>(i))));
    }
  }
  return {};
}

// Tokens of one sequence, prompt and output.
std::uint32_t total_tokens_max(const RunnerInfo& info) {
  std::uint32_t limit = std::numeric_limits<std::uint32_t>::max();
  if (info.max_position_embeddings != 0) limit = std::min(limit, info.max_position_embeddings);
  if (info.max_total_tokens != 0) limit = std::min(limit, info.max_total_tokens);
  return limit;
}

Status read_place(const v3::Request& request, const RunnerInfo& info, StockRequest& out) {
  const auto n_prompt = static_cast<std::uint32_t>(out.spec.prompt.size());
  const std::uint64_t n_tokens = std::uint64_t{n_prompt} + out.spec.stopping.max_new_tokens;
  if (n_tokens > total_tokens_max(info)) {
    return wrong("max_new_tokens",
                 "such that prompt and output have at most " +
                     std::to_string(total_tokens_max(info)) + " tokens",
                 std::to_string(n_tokens));
  }
  const std::uint64_t n_positions = n_tokens - 1;  // the last token is not fed back
  out.n_positions = static_cast<std::uint32_t>(n_positions);
  if (request.blocks_size() == 0) {
    if (request.slots_size() != 0)
      return wrong("slots", "empty without blocks", std::to_string(request.slots_size()));
    if (request.cache_len() != 0)
      return wrong("cache_len", "0 without blocks", std::to_string(request.cache_len()));
  } else {
    COXSWAIN_RETURN_IF_ERROR(check_blocks(request, info, n_positions));
    out.blocks.assign(request.blocks().begin(), request.blocks().end());
  }
  out.cache_len = request.cache_len();
  if (out.cache_len >= n_prompt) {
    return wrong("cache_len",
                 "less than the prompt of " + std::to_string(n_prompt),
                 std::to_string(out.cache_len));
  }
  out.first_chunk = n_prompt - out.cache_len;
  if (request.has_chunk_len()) {
    if (!info.capabilities.plans_chunks)
      return invalid_argument("`chunk_len` is not supported", "chunk_len");
    if (request.chunk_len() > out.first_chunk) {
      return invalid_argument("Rust and Python tokenizers are not aligned", "chunk_len");
    }
    if (request.chunk_len() == 0) return wrong("chunk_len", "> 0", "0");
    out.first_chunk = request.chunk_len();
  }
  return {};
}

// One step over the prompt is all that a warm-up does.
void shape_for_warmup(const RunnerInfo& info, StockRequest& out) {
  std::vector<TokenId>& prompt = out.spec.prompt;
  const std::size_t limit = std::max<std::uint32_t>(total_tokens_max(info), 2) - 1;
  if (prompt.size() > limit) prompt.resize(limit);
  out.spec.stopping.max_new_tokens = 1;
  out.n_positions = static_cast<std::uint32_t>(prompt.size());
  out.first_chunk = out.n_positions;
}

}  // namespace

Result<StockRequest> read_stock_request(const v3::Request& request,
                                        const TextCodec& codec,
                                        const RunnerInfo& info,
                                        StockUse use,
                                        grammar::Compiler& grammars) {
  StockRequest out;
  out.request_id = request.id();
  COXSWAIN_ASSIGN_OR_RETURN(out.spec.prompt, tokenize(request, codec, use));
  if (out.spec.prompt.empty()) return wrong("inputs", "at least one token", "0");
  if (!request.adapter_id().empty())
    return invalid_argument("`adapter_id` is not supported yet", "adapter_id");
  COXSWAIN_ASSIGN_OR_RETURN(out.spec.sampling, sampling_of(request, info.vocab_size, grammars));
  COXSWAIN_ASSIGN_OR_RETURN(out.spec.stopping, stopping_of(request));
  out.spec.prompt_logprobs = request.prefill_logprobs();
  if (use == StockUse::kWarmup) {
    shape_for_warmup(info, out);
  } else {
    COXSWAIN_RETURN_IF_ERROR(read_place(request, info, out));
  }
  out.spec.rope_length = out.n_positions + 1;
  return out;
}

}  // namespace coxswain::rpc
