#pragma once
// One reader for each file format; each gives the parts of a tokenizer. load.cc chooses among them.
//
// Errors of all: kInvalidArgument or kDataLoss naming the entry at fault; the caller adds the file's name.
//
// Thread rule: pure functions.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "gguf/header.h"
#include "json/json.h"
#include "tokenizer/pipeline.h"

namespace coxswain::tokenizer {

inline constexpr std::size_t kFileBytesMax = std::size_t{512} << 20;
// Twice the largest vocabulary supported.
inline constexpr std::int64_t kTokenIdMax = (std::int64_t{1} << 22) - 1;

// The tokenizer.json of the Hugging Face library `tokenizers`.
Result<TokenizerParts> read_tokenizer_json(std::string_view text);

// A SentencePiece .model file. The library never finds control pieces in a text; a model folder's tokenizer does.
// `config` is tokenizer_config.json or null: `legacy` and `add_prefix_space` say where a blank goes before the text.
Result<TokenizerParts> read_sentencepiece(std::string_view bytes,
                                          bool matches_control_pieces,
                                          const json::Value& config = {});

// tiktoken's rank file. No patterns: chosen by the number of ranks.
Result<TokenizerParts> read_tiktoken(std::string_view text,
                                     const std::vector<std::string>& split_patterns);

// vocab.json + merges.txt (byte-level BPE), vocab.txt (WordPiece). `config` is tokenizer_config.json or null.
Result<TokenizerParts> read_vocab_and_merges(std::string_view vocab_text,
                                             std::string_view merges_text,
                                             const json::Value& config);
Result<TokenizerParts> read_vocab_txt(std::string_view text, const json::Value& config);

// A tokenizer.json, whole: what GGUF files may have beside their lists of tokens (ggml's docs/gguf.md).
inline constexpr std::string_view kGgufWholeTokenizer = "tokenizer.huggingface.json";
// Which of both is read.
enum class GgufTokens { kWholeIfThere, kListed };
// The vocabulary in the header of a GGUF file.
Result<TokenizerParts> read_gguf_vocabulary(const gguf::Header& header, GgufTokens from);

// What Tokenizer::load() makes a tokenizer of; added tokens are not prepared. Errors: as there.
Result<TokenizerParts> load_parts(const std::filesystem::path& path, const LoadOptions& options);
Result<std::shared_ptr<const Tokenizer>> finish_parts(TokenizerParts parts,
                                                      const std::string& file);

// What tokenizer_config.json and special_tokens_map.json say about a tokenizer that was read.
Status apply_tokenizer_config(const json::Value& config, TokenizerParts& parts);
// The special token of that name ("pad_token") in them; it stands as its text or as an object with "content".
std::optional<std::string> special_token(const json::Value& config, std::string_view name);

// Shared by readers: what a file says about an added token beside its text and id; a section written as JSON;
// splits one after another, then bytes; {"token": id}.
Status read_flags(const json::Value& item, const std::string& where, AddedToken& token);
json::Value section(std::string_view text);
Result<PreTokenizerPlan> split_and_byte_level(const std::vector<std::string>& patterns);
Status add_vocabulary(std::string_view object, const std::string& where, TokenTable& names);

}  // namespace coxswain::tokenizer
