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
  std::string spelled;  // a piece in the byte alphabet
};

// What one call has found so far.
struct PipelineTokenizer::Output {
  Encoding& encoding;
  bool wants_offsets = true;
  std::size_t input_bytes = 0;
  std::size_t ids_max = 0;        // no more are looked for once there are more than this
  std::size_t n_prefix = 0;       // ids that the post-processor put first
  std::size_t first_of_text = 0;  // index of the first id of the text at hand

  bool has_room(std::size_t n) const { return encoding.ids.size() + n <= encoding.ids.capacity(); }
  // Makes room for n more ids. With them, `done` of `total` bytes have given all ids from index
  // `first` on; what is left is taken to give as many.
  void grow(std::size_t n, std::size_t first, std::size_t done, std::size_t total) const {
    const std::size_t needed = encoding.ids.size() + n;
    const double per_byte =
        static_cast<double>(needed - first) / static_cast<double>(std::max<std::size_t>(done, 1));
    const double left = static_cast<double>(total - std::min(done, total));
    const double expected = static_cast<double>(needed) + left * std::min(per_byte, 1.0) * 1.02;
    const std::size_t wanted =
        std::max(needed + needed / 4, static_cast<std::size_t>(expected) + 64);
    encoding.ids.reserve(wanted);
    if (wants_offsets) encoding.offsets.reserve(wanted);
  }
  // Adds what lies at [first, last) once more.
  void repeat(std::size_t first, std::size_t last) const {
    const auto again = [&](auto& list) {
      list.reserve(list.size() + (last - first));
      for (std::size_t i = first; i < last; ++i) list.push_back(list[i]);
    };
    again(encoding.ids);
    if (wants_offsets) again(encoding.offsets);
  }
};

// Where the tokens of a piece go on in the text.
class PipelineTokenizer::PieceCursor {
 public:
  // `spelled`: the piece in the byte alphabet if that is what the model reads.
  PieceCursor(PieceRange piece, std::optional<std::string_view> spelled)
      : at_(piece.begin), end_(piece.end), spelled_(spelled) {}

  std::size_t at() const { return at_; }
  // Where the next n_bytes of what the model reads end in the text.
  std::size_t end_of(std::size_t n_bytes) const {
    const std::size_t n = spelled_ ? count_characters(spelled_->substr(0, n_bytes)) : n_bytes;
    return std::min(at_ + n, end_);
  }
  void skip(std::size_t n_bytes) {
    at_ = end_of(n_bytes);
    if (spelled_) spelled_->remove_prefix(std::min(n_bytes, spelled_->size()));
  }

 private:
  std::size_t at_;
  std::size_t end_;
  std::optional<std::string_view> spelled_;
};

// Borrows a set of buffers for one call.
class PipelineTokenizer::ScratchLease {
 public:
  explicit ScratchLease(const PipelineTokenizer& owner) : owner_(owner) {
    const base::MutexLock lock(owner_.mutex_);
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
        scratch_->spelled.capacity() > kSymbolsKept) {
      WordCache words = std::move(scratch_->model.words);
      scratch_ = std::make_unique<Scratch>();
      scratch_->model.words = std::move(words);
    }
    const base::MutexLock lock(owner_.mutex_);
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
  spells_pieces_ = parts_.pre_tokenizer.leaves_bytes && !parts_.model_reads_bytes;
  vocab_size_ = parts_.names->id_end();
  for (const AddedToken& token : parts_.added.tokens())
    vocab_size_ = std::max(vocab_size_, static_cast<std::size_t>(token.id) + 1);
  // What the post-processor adds need not have a name.
  for (const auto& ids : parts_.post_processor.special) {
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
  const PostProcessor& post = parts_.post_processor;
  const std::size_t n_copies =
      options.add_special_tokens ? post.special.size() - 1 : post.n_plain_copies;
  Encoding out;
  Output found{out, options.wants_offsets, text.size()};
  found.ids_max = ids_max_of_text(options, n_copies);
  if (options.add_special_tokens) out.ids = post.special.front();
  if (options.wants_offsets) out.offsets.resize(out.ids.size());
  found.n_prefix = out.ids.size();
  if (n_copies > 0) COXSWAIN_RETURN_IF_ERROR(encode_input(text, options.untrusted, found));
  if (options.wants_offsets && post.trims_offsets) trim_offsets(out);
  const std::size_t n_once = out.ids.size();
  for (std::size_t copy = 0; copy < n_copies; ++copy) {
    if (copy > 0) found.repeat(found.n_prefix, n_once);
    if (!options.add_special_tokens) continue;
    const std::vector<TokenId>& behind = post.special[copy + 1];
    out.ids.insert(out.ids.end(), behind.begin(), behind.end());
    if (options.wants_offsets)
      out.offsets.resize(out.ids.size(), TextSpan{text.size(), text.size()});
  }
  out.truncated = out.ids.size() > options.tokens_max;
  return out;
}

// More ids than this, those before the text included, and there are too many in all.
std::size_t PipelineTokenizer::ids_max_of_text(const EncodeOptions& options,
                                               std::size_t n_copies) const {
  constexpr auto kNoLimit = static_cast<std::size_t>(-1);
  if (options.tokens_max == kNoLimit || n_copies == 0) return kNoLimit;
  std::size_t n_special = 0;
  std::size_t n_prefix = 0;
  if (options.add_special_tokens) {
    for (const auto& ids : parts_.post_processor.special) n_special += ids.size();
    n_prefix = parts_.post_processor.special.front().size();
  }
  const std::size_t n_left = options.tokens_max - std::min(n_special, options.tokens_max);
  return n_left / n_copies + n_prefix;
}

Status PipelineTokenizer::encode_input(std::string_view text,
                                       std::span<const TextSpan> untrusted,
                                       Output& out) const {
  ScratchLease scratch(*this);
  const bool keeps_origins =
      out.wants_offsets || (!untrusted.empty() && parts_.added.needs_origins());
  const auto encode_section = [&](TextSection section) -> Status {
    std::vector<TokenId>& ids = out.encoding.ids;
    if (ids.size() > out.ids_max) return {};
    if (!section.token) return encode_text(std::move(section.text), *scratch, out);
    if (out.wants_offsets && !out.has_room(1))
      out.grow(1, out.n_prefix, section.origin.end, text.size());
    ids.push_back(*section.token);
    if (out.wants_offsets) out.encoding.offsets.push_back(section.origin);
    return {};
  };
  return parts_.added.split(
      sanitized(text, keeps_origins), parts_.normalizer.get(), untrusted, encode_section);
}

Status PipelineTokenizer::encode_text(AlignedText text, Scratch& scratch, Output& out) const {
  if (text.empty()) return {};
  PreText pre;
  pre.pieces.push_back({0, static_cast<std::uint32_t>(text.size())});
  pre.text = std::move(text);
  std::vector<TokenId>& ids = out.encoding.ids;
  const std::size_t first = ids.size();
  out.first_of_text = first;
  if (first == out.n_prefix) {
    constexpr std::size_t kExpectedMax = 1 << 14;  // from there on by what the text has given
    ids.reserve(first + std::min(pre.text.size() / 4, kExpectedMax) + 8);
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
  for (const PieceRange& piece : pieces) {
    if (out.encoding.ids.size() > out.ids_max) return;
    std::string_view source = text.text().substr(piece.begin, piece.end - piece.begin);
    std::optional<std::string_view> spelled;
    if (spells_pieces_) {
      scratch.spelled.clear();
      append_byte_characters(scratch.spelled, source);
      source = scratch.spelled;
      spelled = source;
    }
    PieceCursor cursor(piece, spelled);
    const auto take = [&](std::span<const PieceToken> tokens) {
      take_tokens(text, tokens, cursor, out);
    };
    TokenSpill spill(take);
    scratch.tokens.clear();
    scratch.model.spill = &spill;
    parts_.model->encode(source, scratch.model, scratch.tokens);
    scratch.model.spill = nullptr;
    take(scratch.tokens);
  }
}

// Adds tokens that stand for the text from the cursor on, and moves it behind them.
void PipelineTokenizer::take_tokens(const AlignedText& text,
                                    std::span<const PieceToken> tokens,
                                    PieceCursor& cursor,
                                    Output& out) {
  std::size_t n_bytes = 0;
  for (const PieceToken& token : tokens) n_bytes += token.n_bytes;
  if (!out.has_room(tokens.size())) {
    const std::size_t done = cursor.end_of(n_bytes);
    if (out.wants_offsets) {
      const std::size_t done_of_input = text.origin(cursor.at(), done).end;
      out.grow(tokens.size(), out.n_prefix, done_of_input, out.input_bytes);
    } else {
      out.grow(tokens.size(), out.first_of_text, done, text.size());
    }
  }
  for (const PieceToken& token : tokens) {
    out.encoding.ids.push_back(token.id);
    if (!out.wants_offsets) continue;
    const std::size_t begin = cursor.at();
    cursor.skip(token.n_bytes);
    out.encoding.offsets.push_back(text.origin(begin, cursor.at()));
  }
  if (!out.wants_offsets) cursor.skip(n_bytes);
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

std::string PipelineTokenizer::token_bytes(TokenId id) const {
  if (!exists(id) || is_special(id)) return {};
  const auto index = static_cast<std::size_t>(id);
  if (!bytes_begin_.empty())
    return bytes_.substr(bytes_begin_[index], bytes_begin_[index + 1] - bytes_begin_[index]);
  return later_bytes(parts_.decoder, decoded_name(id));
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

bool PipelineTokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < vocab_size_ &&
         is_special_[static_cast<std::size_t>(id)];
}

std::unique_ptr<Tokenizer::Incremental> PipelineTokenizer::incremental(
    std::span<const TokenId> context, bool skip_special) const {
  return std::make_unique<PipelineIncremental>(*this, context, skip_special);
}

}  // namespace coxswain::tokenizer
