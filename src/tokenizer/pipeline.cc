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

// What one call has found so far.
struct PipelineTokenizer::Output {
  Encoding& encoding;
  bool wants_offsets = true;
  std::size_t ids_max = 0;        // no more are looked for once there are more than this
  std::size_t text_done = 0;      // bytes of the text at hand that the ids stand for
  std::size_t first_of_text = 0;  // index of its first id

  // Makes room for n more ids. What is left of the text is taken to give as many as what is done.
  void grow(std::size_t n, std::size_t text_size) const {
    const std::size_t needed = encoding.ids.size() + n;
    if (needed <= encoding.ids.capacity()) return;
    const double per_byte = static_cast<double>(needed - first_of_text) /
                            static_cast<double>(std::max<std::size_t>(text_done, 1));
    const double left = static_cast<double>(text_size - std::min(text_done, text_size));
    const double expected = static_cast<double>(needed) + left * std::min(per_byte, 1.0) * 1.02;
    const std::size_t wanted =
        std::max(needed + needed / 4, static_cast<std::size_t>(expected) + 64);
    encoding.ids.reserve(wanted);
    if (wants_offsets) encoding.offsets.reserve(wanted);
  }
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
        scratch_->tokens.capacity() > kSymbolsKept ||
        scratch_->model.lattice.capacity() > kSymbolsKept ||
        scratch_->bytes.capacity() > kSymbolsKept) {
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
  const bool has_untrusted = !options.untrusted.empty();
  const bool keeps_origins =
      options.wants_offsets || (has_untrusted && parts_.added.needs_origins());
  AlignedText input = sanitized(text, keeps_origins);
  if (options.add_special_tokens) out.ids = parts_.post_processor.prefix;
  if (options.wants_offsets) out.offsets.resize(out.ids.size());
  const std::size_t n_prefix = out.ids.size();
  Output found{out, options.wants_offsets};
  found.ids_max = n_max == static_cast<std::size_t>(-1) ? n_max : n_max + n_prefix;
  const auto encode_section = [&](TextSection section) -> Status {
    if (out.ids.size() > found.ids_max) return {};
    if (!section.token) return encode_text(std::move(section.text), *scratch, found);
    out.ids.push_back(*section.token);
    if (options.wants_offsets) out.offsets.push_back(section.origin);
    return {};
  };
  COXSWAIN_RETURN_IF_ERROR(parts_.added.split(
      std::move(input), parts_.normalizer.get(), options.untrusted, encode_section));
  if (options.wants_offsets && parts_.post_processor.trims_offsets) trim_offsets(out);
  if (options.add_special_tokens) {
    const auto& suffix = parts_.post_processor.suffix;
    out.ids.insert(out.ids.end(), suffix.begin(), suffix.end());
    if (options.wants_offsets)
      out.offsets.resize(out.ids.size(), TextSpan{text.size(), text.size()});
  }
  out.truncated = out.ids.size() > options.tokens_max;
  return out;
}

Status PipelineTokenizer::encode_text(AlignedText text, Scratch& scratch, Output& out) const {
  if (text.empty()) return {};
  PreText pre;
  pre.pieces.push_back({0, static_cast<std::uint32_t>(text.size())});
  pre.text = std::move(text);
  std::vector<TokenId>& ids = out.encoding.ids;
  const std::size_t first = ids.size();
  out.first_of_text = first;
  out.text_done = 0;
  constexpr std::size_t kExpectedMax = 1 << 14;  // from there on by what the text has given
  const std::size_t expected = first + std::min(pre.text.size() / 4, kExpectedMax);
  if (expected > ids.capacity()) {
    ids.reserve(expected + expected / 8);
    if (out.wants_offsets) out.encoding.offsets.reserve(ids.capacity());
  }
  const auto encode = [&](std::span<const PieceRange> pieces) {
    encode_pieces(pre.text, pieces, scratch, out);
    return ids.size() <= out.ids_max;
  };
  if (parts_.pre_tokenizer.steps) {
    COXSWAIN_RETURN_IF_ERROR(parts_.pre_tokenizer.steps->run(pre, encode));
  } else {
    encode(pre.pieces);
  }
  // A Unigram model without an unknown token has no answer; the reference fails here too.
  const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
  if (std::any_of(begin, ids.end(), [](TokenId id) { return id < 0; }))
    return invalid_argument("the text has a character that is not in the tokenizer's vocabulary");
  return {};
}

void PipelineTokenizer::encode_pieces(const AlignedText& text,
                                      std::span<const PieceRange> pieces,
                                      Scratch& scratch,
                                      Output& out) const {
  const bool is_alphabet = parts_.pre_tokenizer.writes_byte_alphabet && parts_.model_reads_bytes;
  for (const PieceRange& piece : pieces) {
    if (out.encoding.ids.size() > out.ids_max) return;
    std::string_view source = text.text().substr(piece.begin, piece.end - piece.begin);
    if (is_alphabet) {
      scratch.bytes.clear();
      scratch.bytes.reserve(static_cast<std::size_t>(
          std::ranges::count_if(source, [](char byte) { return !is_continuation(byte); })));
      append_bytes_of_characters(scratch.bytes, source);
      source = scratch.bytes;
    }
    std::size_t at = piece.begin;
    const auto take = [&](std::span<const PieceToken> tokens) {
      take_tokens(text, tokens, at, out);
    };
    TokenSpill spill(take);
    scratch.tokens.clear();
    scratch.model.spill = &spill;
    parts_.model->encode(source, scratch.model, scratch.tokens);
    scratch.model.spill = nullptr;
    take(scratch.tokens);
  }
}

// Adds tokens that stand for the text from byte `at` on, and moves `at` behind them.
void PipelineTokenizer::take_tokens(const AlignedText& text,
                                    std::span<const PieceToken> tokens,
                                    std::size_t& at,
                                    Output& out) const {
  const bool is_alphabet = parts_.pre_tokenizer.writes_byte_alphabet && parts_.model_reads_bytes;
  out.text_done = at;
  for (const PieceToken& token : tokens) out.text_done += token.n_bytes;
  out.grow(tokens.size(), text.size());
  for (const PieceToken& token : tokens) {
    out.encoding.ids.push_back(token.id);
    if (!out.wants_offsets) continue;
    std::size_t end = at + token.n_bytes;
    if (is_alphabet) {  // a byte of the model is a character of the text
      end = at;
      for (std::uint32_t n = 0; n < token.n_bytes && end < text.size(); ++n)
        end += code_point_at(text.text(), end).n_bytes;
    }
    out.encoding.offsets.push_back(text.origin(at, end));
    at = end;
  }
  if (!out.wants_offsets) at = out.text_done;
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
  options.wants_offsets = false;
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
