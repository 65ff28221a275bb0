#pragma once
// Tokenizer: text <-> token ids for every file format a model may bring.
//
// Loading picks the file as the reference library does (docs/tokenizers.md): tokenizer.json, then
// tokenizer.model (SentencePiece, or a tiktoken rank file under that name), then vocab.json + merges.txt,
// then a .tiktoken file. tokenizer_config.json and special_tokens_map.json adjust bos/eos and special tokens.
//
// Text that users send never turns into special tokens: encode() takes the spans of untrusted text; a
// *special* added token is not matched where its text touches such a span, and nothing else changes.
//
// Thread rule: immutable after load; const methods from any thread. An IncrementalDecoder belongs to one
// thread. Input is UTF-8 of any content, NUL included; broken UTF-8 is treated as U+FFFD per maximal subpart.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain::tokenizer {

struct EncodeOptions {
  bool add_special_tokens = true;            // what the post-processor adds (BOS, EOS, ...)
  std::span<const TextSpan> untrusted = {};  // sorted, disjoint byte ranges of the text
  std::size_t tokens_max = static_cast<std::size_t>(-1);  // stop early once the count exceeds this
  bool wants_offsets = true;  // false: Encoding::offsets stays empty; faster, and less memory
};

struct Encoding {
  std::vector<TokenId> ids;
  // [ids], bytes of the input text; an empty span for tokens that were added; none at all unless they are wanted.
  std::vector<TextSpan> offsets;
  bool truncated = false;  // stopped early: more than tokens_max tokens
};

struct LoadOptions {
  // Replaces tokenizer_config.json; empty = the one in the folder.
  std::string tokenizer_config_path;
  // How a rank file's text is split, one regular expression after another; empty = by its size.
  std::vector<std::string> split_patterns = {};
  // Release 0.23 of the reference decodes an added token as its normalizer writes it, and then does not know
  // it as special any more ("</s>" of Llama 2 comes out as " </s>" even when special tokens are skipped). Off:
  // added tokens are written as they are and every special one can be skipped, as in the releases before.
  bool decodes_normalized_names = false;
};

class Tokenizer {
 public:
  // `path`: a model folder, or one tokenizer file (tokenizer.json, *.model, *.tiktoken, *.gguf).
  // Errors: kInvalidArgument / kNotFound / kDataLoss naming the file and the entry at fault.
  static Result<std::shared_ptr<const Tokenizer>> load(const std::filesystem::path& path,
                                                       const LoadOptions& options = {});

  virtual ~Tokenizer() = default;

  virtual Result<Encoding> encode(std::string_view text, const EncodeOptions& options) const = 0;
  // Ids out of range decode to nothing. Incomplete or broken byte sequences become U+FFFD.
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special) const = 0;

  virtual std::size_t vocab_size() const = 0;  // highest id + 1
  virtual std::optional<TokenId> token_to_id(std::string_view token) const = 0;
  virtual std::string token(TokenId id) const = 0;  // as the vocabulary writes it
  virtual bool is_special(TokenId id) const = 0;
  // What the token adds to a text in the midst of it, whole characters or not; empty for special tokens and for ids
  // that do not exist.
  virtual std::string token_bytes(TokenId id) const = 0;

  // From tokenizer_config.json / special_tokens_map.json / the model file; empty if unknown.
  virtual std::optional<TokenId> eos_id() const = 0;
  virtual std::string bos_token() const = 0;
  virtual std::string eos_token() const = 0;

  // A split pattern of the file that has no scanner of its own and runs on PCRE2, slower and with
  // limits; empty if there is none. Start-up warns of it.
  virtual std::string unknown_split_pattern() const { return {}; }

  // Per-stream state of the decoder. push() returns what the token adds to the text; never half a
  // character; the concatenation of all pieces and finish() equals decode() of all ids at once.
  class Incremental {
   public:
    virtual ~Incremental() = default;
    virtual std::string push(TokenId id) = 0;
    virtual std::string finish() = 0;
  };
  // `context`: ids that precede the stream (its text is not emitted). The tokenizer must outlive what is returned.
  virtual std::unique_ptr<Incremental> incremental(std::span<const TokenId> context,
                                                   bool skip_special) const = 0;
};

}  // namespace coxswain::tokenizer
