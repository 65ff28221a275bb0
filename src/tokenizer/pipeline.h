#pragma once
// PipelineTokenizer: the parts of a tokenizer put together. Every file format ends here.
//
// encode: added tokens -> normalizer -> pre-tokenizer -> model -> post-processor.
// decode: tokens -> decoder chain. Thread rule: as Tokenizer; calls borrow their buffers from a pool.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/decoder.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::tokenizer {

struct TokenizerParts {
  std::unique_ptr<TokenTable> names = std::make_unique<TokenTable>();  // the model's vocabulary
  std::unique_ptr<TokenTable> strings;  // what tokens stand for, where the model needs that too
  AddedTokens added;
  std::unique_ptr<Normalizer> normalizer;  // nullptr: none
  PreTokenizerPlan pre_tokenizer;
  std::unique_ptr<Model> model;
  bool model_reads_bytes = false;  // its pieces are bytes, its vocabulary is in the byte alphabet
  PostProcessor post_processor;
  DecoderPlan decoder;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  bool decodes_normalized_names = false;  // see LoadOptions
};

class PipelineTokenizer final : public Tokenizer {
 public:
  // REQUIRES: parts.model; added tokens are prepared.
  explicit PipelineTokenizer(TokenizerParts parts);
  ~PipelineTokenizer() override;

  Result<Encoding> encode(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override;
  std::size_t vocab_size() const override { return vocab_size_; }
  std::optional<TokenId> token_to_id(std::string_view token) const override;
  std::string token(TokenId id) const override { return std::string(name(id)); }
  bool is_special(TokenId id) const override;
  std::string token_bytes(TokenId id) const override;
  std::string unknown_split_pattern() const override {
    return parts_.pre_tokenizer.unknown_pattern;
  }
  std::optional<TokenId> eos_id() const override { return parts_.eos; }
  std::string bos_token() const override { return parts_.bos ? token(*parts_.bos) : std::string(); }
  std::string eos_token() const override { return parts_.eos ? token(*parts_.eos) : std::string(); }
  std::unique_ptr<Incremental> incremental(std::span<const TokenId> context,
                                           bool skip_special) const override;

  // Appends the token to the chain unless it is to be skipped or does not exist.
  void push_token(DecoderChain& chain, TokenId id, bool skip_special) const;
  const DecoderPlan& decoder() const { return parts_.decoder; }

 private:
  struct Scratch;
  struct Output;
  class PieceCursor;
  class ScratchLease;

  std::string_view name(TokenId id) const;
  std::string_view decoded_name(TokenId id) const;
  std::size_t ids_max_of_text(const EncodeOptions& options, std::size_t n_copies) const;
  Status encode_input(std::string_view text,
                      std::span<const TextSpan> untrusted,
                      Output& out) const;
  Status encode_text(AlignedText text, Scratch& scratch, Output& out) const;
  void encode_pieces(const AlignedText& text,
                     std::span<const PieceRange> pieces,
                     Scratch& scratch,
                     Output& out) const;
  static void take_tokens(const AlignedText& text,
                          std::span<const PieceToken> tokens,
                          PieceCursor& cursor,
                          Output& out);
  void trim_offsets(Encoding& encoding) const;
  std::string decode_bytes(std::span<const TokenId> ids, bool skip_special) const;
  std::string decode_tokens(std::span<const TokenId> ids, bool skip_special) const;
  bool exists(TokenId id) const;
  void fill_decoded();

  TokenizerParts parts_;
  std::size_t vocab_size_ = 0;
  bool spells_pieces_ = false;       // pieces are written in the byte alphabet for the model
  bool is_only_byte_level_ = false;  // the decoder is ByteLevel alone
  bool has_later_tokens_ = false;    // all tokens but the first decode on their own
  std::vector<bool> is_special_;     // [id]
  std::vector<bool> is_skipped_;     // [id]: left out when special tokens are skipped
  // The bytes of each token where one of both: token id is at [bytes_begin_[id],
  // bytes_begin_[id + 1]).
  std::string bytes_;
  std::vector<std::uint32_t> bytes_begin_;

  mutable base::Mutex mutex_;
  // At most kScratchesMax.
  mutable std::vector<std::unique_ptr<Scratch>> scratches_ GUARDED_BY(mutex_);
};

}  // namespace coxswain::tokenizer
