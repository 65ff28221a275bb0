#include "tokenizer/pipeline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kScratchesMax = 16;  // idle sets of buffers that are kept
constexpr std::size_t kTextBytesMax = std::numeric_limits<std::uint32_t>::max() / 8;

class PipelineIncremental final : public Tokenizer::Incremental {
 public:
  PipelineIncremental(const PipelineTokenizer& tokenizer,
                      std::span<const TokenId> context,
                      bool skip_special)
      : tokenizer_(tokenizer), chain_(tokenizer.decoder()), skip_special_(skip_special) {
    for (const TokenId id : context) {
      tokenizer_.push_token(chain_, id, skip_special_);
      chain_.discard();
    }
  }
  std::string push(TokenId id) override {
    tokenizer_.push_token(chain_, id, skip_special_);
    return chain_.take();
  }
  std::string finish() override {
    chain_.finish();
    return chain_.take();
  }

 private:
  const PipelineTokenizer& tokenizer_;
  DecoderChain chain_;
  bool skip_special_;
};

}  // namespace

struct PipelineTokenizer::Scratch {
  ModelScratch model;
  std::vector<PieceToken> tokens;
  std::string bytes;
};

// Borrows a set of buffers for one call.
class PipelineTokenizer::ScratchLease {
 public:
  explicit ScratchLease(const PipelineTokenizer& owner) : owner_(owner) {
    const std::lock_guard<std::mutex> lock(owner_.mutex_);
    if (!owner_.scratches_.empty()) {
      scratch_ = std::move(owner_.scratches_.back());
      owner_.scratches_.pop_back();
    }
    if (!scratch_) scratch_ = std::make_unique<Scratch>();
  }
  ~ScratchLease() {
    constexpr std::size_t kSymbolsKept = 1 << 16;  // buffers of a very long text are given back
    if (scratch_->model.symbols.capacity() > kSymbolsKept ||
        scratch_->model.lattice.capacity() > kSymbolsKept) {
      WordCache words = std::move(scratch_->model.words);
      scratch_ = std::make_unique<Scratch>();
      scratch_->model.words = std::move(words);
    }
    const std::lock_guard<std::mutex> lock(owner_.mutex_);
    if (owner_.scratches_.size() < kScratchesMax) owner_.scratches_.push_back(std::move(scratch_));
  }
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;
  Scratch& operator*() { return *scratch_; }

 private:
  const PipelineTokenizer& owner_;
  std::unique_ptr<Scratch> scratch_;
};

PipelineTokenizer::PipelineTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
  vocab_size_ = parts_.names->id_end();
  for (const AddedToken& token : parts_.added.tokens())
    vocab_size_ = std::max(vocab_size_, static_cast<std::size_t>(token.id) + 1);
  // What the post-processor adds need not have a name.
  for (const auto& ids : {parts_.post_processor.prefix, parts_.post_processor.suffix}) {
    for (const TokenId id : ids)
      vocab_size_ = std::max(vocab_size_, static_cast<std::size_t>(id) + 1);
  }
  is_special_.resize(vocab_size_);
  is_skipped_.resize(vocab_size_);
  for (const AddedToken& token : parts_.added.tokens()) {
    const auto id = static_cast<std::size_t>(token.id);
    is_special_[id] = token.special;
    is_skipped_[id] = token.special && decoded_name(token.id) == token.content;
  }
  fill_decoded();
}

void PipelineTokenizer::fill_decoded() {
  if (parts_.decoder.size() != 1) return;
  const DecoderStep& step = *parts_.decoder[0];
  is_only_byte_level_ = step.is_byte_level();
  has_later_tokens_ = !is_only_byte_level_ && step.later_token("").has_value();
  if (!is_only_byte_level_ && !has_later_tokens_) return;
  bytes_.reserve(vocab_size_ * 8);
  bytes_begin_.reserve(vocab_size_ + 1);
  for (std::size_t id = 0; id < vocab_size_; ++id) {
    bytes_begin_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    const std::string_view token = decoded_name(static_cast<TokenId>(id));
    if (has_later_tokens_) {
      if (exists(static_cast<TokenId>(id))) bytes_ += step.later_token(token).value_or("");
    } else if (!append_bytes_of_characters(bytes_, token)) {
      bytes_.append(token);
    }
  }
  bytes_begin_.push_back(static_cast<std::uint32_t>(bytes_.size()));
}

bool PipelineTokenizer::exists(TokenId id) const {
  return parts_.names->has(id) || parts_.added.find(id) != nullptr;
}

PipelineTokenizer::~PipelineTokenizer() = default;

std::string_view PipelineTokenizer::name(TokenId id) const {
  const AddedToken* added = parts_.added.find(id);
  return added != nullptr ? std::string_view(added->content) : parts_.names->string(id);
}

std::string_view PipelineTokenizer::decoded_name(TokenId id) const {
  const AddedToken* added = parts_.decodes_normalized_names ? parts_.added.find(id) : nullptr;
  return added != nullptr && added->normalized ? std::string_view(added->normal_form) : name(id);
}

Result<Encoding> PipelineTokenizer::encode(std::string_view text,
                                           const EncodeOptions& options) const {
  if (text.size() > kTextBytesMax)
    return Status(Code::kInvalidArgument,
                  ErrorKind::kPayloadTooLarge,
                  "a text of " + std::to_string(text.size()) + " bytes is too long to encode");
  const std::size_t n_special = options.add_special_tokens ? parts_.post_processor.prefix.size() +
                                                                 parts_.post_processor.suffix.size()
                                                           : 0;
  const std::size_t n_max = options.tokens_max > n_special ? options.tokens_max - n_special : 0;
  Encoding out;
  ScratchLease scratch(*this);
  COXSWAIN_ASSIGN_OR_RETURN(
      std::vector<TextSection> sections,
      parts_.added.split(sanitized(text), parts_.normalizer.get(), options.untrusted));
  if (options.add_special_tokens) {
    out.ids = parts_.post_processor.prefix;
    out.offsets.resize(out.ids.size());
  }
  const std::size_t n_prefix = out.ids.size();
  for (TextSection& section : sections) {
    if (out.ids.size() - n_prefix > n_max) break;
    if (section.token) {
      out.ids.push_back(*section.token);
      out.offsets.push_back(section.origin);
    } else {
      COXSWAIN_RETURN_IF_ERROR(
          encode_text(std::move(section.text),
                      n_max == static_cast<std::size_t>(-1) ? n_max : n_max + n_prefix,
                      *scratch,
                      out));
    }
  }
  if (parts_.post_processor.trims_offsets) trim_offsets(out);
  if (options.add_special_tokens) {
    const auto& suffix = parts_.post_processor.suffix;
    out.ids.insert(out.ids.end(), suffix.begin(), suffix.end());
    out.offsets.resize(out.ids.size(), TextSpan{text.size(), text.size()});
  }
  out.truncated = out.ids.size() > options.tokens_max;
  return out;
}

Status PipelineTokenizer::encode_text(AlignedText text,
                                      std::size_t n_max,
                                      Scratch& scratch,
                                      Encoding& out) const {
  if (text.empty()) return {};
  PreText pre;
  pre.pieces.push_back({0, static_cast<std::uint32_t>(text.size())});
  pre.text = std::move(text);
  if (parts_.pre_tokenizer.steps) COXSWAIN_RETURN_IF_ERROR(parts_.pre_tokenizer.steps->apply(pre));
  const std::size_t expected = out.ids.size() + std::max(pre.pieces.size(), pre.text.size() / 4);
  if (expected > out.ids.capacity()) {
    out.ids.reserve(expected + expected / 4);
    out.offsets.reserve(expected + expected / 4);
  }
  const auto first = static_cast<std::ptrdiff_t>(out.ids.size());
  for (const PieceRange& piece : pre.pieces) {
    if (out.ids.size() > n_max) break;
    append_piece(pre.text, piece, scratch, out);
  }
  // A Unigram model without an unknown token has no answer; the reference fails here too.
  if (std::any_of(out.ids.begin() + first, out.ids.end(), [](TokenId id) { return id < 0; }))
    return invalid_argument("the text has a character that is not in the tokenizer's vocabulary");
  return {};
}

void PipelineTokenizer::append_piece(const AlignedText& text,
                                     PieceRange piece,
                                     Scratch& scratch,
                                     Encoding& out) const {
  std::string_view source = text.text().substr(piece.begin, piece.end - piece.begin);
  scratch.tokens.clear();
  if (!parts_.pre_tokenizer.writes_byte_alphabet || !parts_.model_reads_bytes) {
    parts_.model->encode(source, scratch.model, scratch.tokens);
    std::size_t at = piece.begin;
    for (const PieceToken& token : scratch.tokens) {
      out.ids.push_back(token.id);
      out.offsets.push_back(text.origin(at, at + token.n_bytes));
      at += token.n_bytes;
    }
    return;
  }
  // The piece is written in the byte alphabet, the model reads bytes: a byte is a character here.
  scratch.bytes.clear();
  append_bytes_of_characters(scratch.bytes, source);
  parts_.model->encode(scratch.bytes, scratch.model, scratch.tokens);
  std::size_t at = piece.begin;
  for (const PieceToken& token : scratch.tokens) {
    std::size_t end = at;
    for (std::uint32_t n = 0; n < token.n_bytes && end < piece.end; ++n)
      end += code_point_at(text.text(), end).n_bytes;
    out.ids.push_back(token.id);
    out.offsets.push_back(text.origin(at, end));
    at = end;
  }
}

void PipelineTokenizer::trim_offsets(Encoding& encoding) const {
  constexpr char32_t kBlank = 0x120;  // in the byte alphabet
  const auto is_blank = [](char32_t c) { return c == kBlank || is_space(c); };
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const std::string_view token = name(encoding.ids[i]);
    TextSpan& span = encoding.offsets[i];
    std::size_t n_leading = 0;
    for (std::size_t at = 0; at < token.size() && is_blank(code_point_at(token, at).value);
         at += code_point_at(token, at).n_bytes)
      ++n_leading;
    std::size_t n_trailing = 0;
    for (std::size_t end = token.size(); end > 0 && is_blank(code_point_before(token, end).value);
         end -= code_point_before(token, end).n_bytes)
      ++n_trailing;
    if (n_leading > 0) {
      const bool is_first = i == 0 || span.begin == 0;
      if (is_first && parts_.post_processor.adds_prefix_space) --n_leading;
      span.begin = std::min(span.begin + n_leading, span.end);
    }
    if (n_trailing > 0 && span.end >= n_trailing)
      span.end = std::max(span.end - n_trailing, span.begin);
  }
}

std::size_t PipelineTokenizer::count(std::string_view text,
                                     bool add_special_tokens,
                                     std::size_t limit) const {
  EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  options.tokens_max = limit;
  const auto encoding = encode(text, options);
  if (!encoding.ok() || encoding->truncated) return std::max(limit, limit + 1);
  return encoding->ids.size();
}

void PipelineTokenizer::push_token(DecoderChain& chain, TokenId id, bool skip_special) const {
  if (id < 0 || static_cast<std::size_t>(id) >= vocab_size_) return;
  if (skip_special && is_skipped_[static_cast<std::size_t>(id)]) return;
  if (!exists(id)) return;
  chain.push(decoded_name(id));
}

std::string PipelineTokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  if (is_only_byte_level_) return decode_bytes(ids, skip_special);
  if (has_later_tokens_) return decode_tokens(ids, skip_special);
  DecoderChain chain(parts_.decoder);
  for (const TokenId id : ids) push_token(chain, id, skip_special);
  chain.finish();
  return chain.take();
}

std::string PipelineTokenizer::decode_bytes(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  bytes.reserve(ids.size() * 5);
  for (const TokenId id : ids) {
    const auto index = static_cast<std::size_t>(id);
    if (id < 0 || index >= vocab_size_ || (skip_special && is_skipped_[index])) continue;
    bytes.append(bytes_, bytes_begin_[index], bytes_begin_[index + 1] - bytes_begin_[index]);
  }
  if (valid_utf8_prefix(bytes) == bytes.size()) return bytes;
  std::string out;
  append_lossy(out, bytes);
  return out;
}

std::string PipelineTokenizer::decode_tokens(std::span<const TokenId> ids,
                                             bool skip_special) const {
  const auto counts = [&](TokenId id) {
    return id >= 0 && static_cast<std::size_t>(id) < vocab_size_ &&
           !(skip_special && is_skipped_[static_cast<std::size_t>(id)]) && exists(id);
  };
  const auto first = std::find_if(ids.begin(), ids.end(), counts);
  if (first == ids.end()) return {};
  DecoderChain chain(parts_.decoder);
  push_token(chain, *first, skip_special);
  chain.finish();
  std::string out = chain.take();
  out.reserve(out.size() + ids.size() * 5);
  for (const TokenId id : ids.subspan(static_cast<std::size_t>(first - ids.begin()) + 1)) {
    const auto index = static_cast<std::size_t>(id);
    if (id < 0 || index >= vocab_size_ || (skip_special && is_skipped_[index])) continue;
    out.append(bytes_, bytes_begin_[index], bytes_begin_[index + 1] - bytes_begin_[index]);
  }
  return out;
}

std::optional<TokenId> PipelineTokenizer::token_to_id(std::string_view token) const {
  if (const AddedToken* added = parts_.added.find(token)) return added->id;
  return parts_.names->find(token);
}

std::string PipelineTokenizer::token_bytes(TokenId id) const {
  if (is_special(id)) return {};
  const std::string_view token = name(id);
  std::string out;
  switch (parts_.spelling) {
    case TokenSpelling::kPlain:
      break;
    case TokenSpelling::kByteLevel:
      if (append_bytes_of_characters(out, token)) return out;
      break;
    case TokenSpelling::kMetaspace: {
      std::size_t at = 0;
      if (const auto byte = byte_of_token_name(token)) return std::string(1, *byte);
      for (std::size_t found = token.find(kMetaspaceUtf8); found != std::string_view::npos;
           found = token.find(kMetaspaceUtf8, at)) {
        out.append(token.substr(at, found - at)).push_back(' ');
        at = found + kMetaspaceUtf8.size();
      }
      return out.append(token.substr(at));
    }
    case TokenSpelling::kWordPiece:
      if (token.starts_with("##")) return std::string(token.substr(2));
      return token.empty() ? std::string() : " " + std::string(token);
  }
  return std::string(token);
}

bool PipelineTokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < vocab_size_ &&
         is_special_[static_cast<std::size_t>(id)];
}

std::unique_ptr<Tokenizer::Incremental> PipelineTokenizer::incremental(
    std::span<const TokenId> context, bool skip_special) const {
  return std::make_unique<PipelineIncremental>(*this, context, skip_special);
}

}  // namespace coxswain::tokenizer
