// SentencePiece's own normalizer and decoder.

#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

class SentencePieceNormalizer final : public Normalizer {
 public:
  explicit SentencePieceNormalizer(SentencePieceNormalizerOptions options)
      : options_(std::move(options)) {}

  Status apply(AlignedText& text) const override {
    const std::string_view source = text.text();
    std::size_t at = options_.remove_extra_blanks ? leading_blanks(source) : 0;
    if (at == source.size()) {
      if (!source.empty()) text = text.slice(source.size(), source.size());
      return {};
    }
    AlignedBuilder out(text);
    if (!options_.blank_is_suffix && wants_blank(text, source.substr(at))) put_blank(out, at, at);
    bool after_blank = options_.remove_extra_blanks;
    std::size_t content_end = out.size();  // without blanks at the end
    while (at < source.size()) {
      const Part part = part_at(source, at);
      std::string_view becomes = part.becomes;
      while (after_blank && becomes.starts_with(' ')) becomes.remove_prefix(1);
      append(out, becomes, at, at + part.n_bytes, content_end);
      if (!becomes.empty()) after_blank = becomes.ends_with(' ');
      if (!options_.remove_extra_blanks) after_blank = false;
      at += part.n_bytes;
    }
    AlignedText made = std::move(out).finish();
    if (options_.remove_extra_blanks) made = without_trailing_blanks(made);
    if (options_.blank_is_suffix && options_.add_dummy_prefix) {
      AlignedBuilder with_suffix(made);
      with_suffix.keep(0, made.size());
      put_blank(with_suffix, made.size(), made.size());
      AlignedText longer = std::move(with_suffix).finish();
      made = std::move(longer);
    }
    text = std::move(made);
    return {};
  }

 private:
  struct Part {
    std::string_view becomes;
    std::size_t n_bytes = 0;
  };

  // Whether a blank goes before `rest`, what is left of a text without its blanks at the start.
  bool wants_blank(const AlignedText& text, std::string_view rest) const {
    if (!options_.prefixes_start_only) return options_.add_dummy_prefix;
    return options_.add_dummy_prefix && text.begins_input(0) && !rest.starts_with(' ') &&
           !rest.starts_with(kMetaspaceUtf8);
  }
  std::string_view blank() const {
    return options_.escape_blanks ? kMetaspaceUtf8 : std::string_view(" ");
  }
  void put_blank(AlignedBuilder& out, std::size_t begin, std::size_t end) const {
    out.put(blank(), begin, end);
  }

  Part part_at(std::string_view text, std::size_t at) const {
    const std::string_view rest = text.substr(at);
    std::size_t taken = 0;
    options_.user_defined.visit_prefixes(
        rest, [&](std::size_t n_bytes, std::int32_t) { taken = n_bytes; });
    if (taken > 0) return {rest.substr(0, taken), taken};
    if (const auto match = options_.charsmap.longest_match(rest))
      return {match->replacement, match->n_bytes};
    const std::size_t length = code_point_at(text, at).n_bytes;
    return {rest.substr(0, length), length};
  }

  std::size_t leading_blanks(std::string_view text) const {
    std::size_t at = 0;
    while (at < text.size()) {
      const Part part = part_at(text, at);
      if (part.becomes != " ") break;
      at += part.n_bytes;
    }
    return at;
  }

  void append(AlignedBuilder& out,
              std::string_view text,
              std::size_t begin,
              std::size_t end,
              std::size_t& content_end) const {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t blank_at =
          options_.escape_blanks ? text.find(' ', at) : std::string_view::npos;
      const std::size_t stop = blank_at == std::string_view::npos ? text.size() : blank_at;
      if (at < stop) out.put(text.substr(at, stop - at), begin, end);
      content_end = out.size();
      if (blank_at == std::string_view::npos) break;
      put_blank(out, begin, end);
      at = stop + 1;
    }
  }

  AlignedText without_trailing_blanks(const AlignedText& text) const {
    std::string_view left = text.text();
    while (left.ends_with(blank())) left.remove_suffix(blank().size());
    return text.slice(0, left.size());
  }

  SentencePieceNormalizerOptions options_;
};

class SentencePieceStage final : public DecoderStage {
 public:
  SentencePieceStage(DecoderStage* next, const SentencePieceDecoderOptions& options)
      : DecoderStage(next), options_(options), assembler_(Utf8Assembler::Broken::kPerByte) {}

  void push(std::string_view token) override {
    text_.clear();
    if (const auto byte = byte_of_token_name(token)) {
      assembler_.push(std::string_view(&*byte, 1), text_);
    } else {
      assembler_.finish(text_);
      has_text_ = has_text_ || !text_.empty();
      append_piece(token);
    }
    emit();
  }
  void finish() override {
    text_.clear();
    assembler_.finish(text_);
    emit();
    next().finish();
  }
  static void append_with_blanks(std::string_view token, std::string& out) {
    for (std::size_t found = token.find(kMetaspaceUtf8); found != std::string_view::npos;
         found = token.find(kMetaspaceUtf8)) {
      out.append(token.substr(0, found)).push_back(' ');
      token.remove_prefix(found + kMetaspaceUtf8.size());
    }
    out += token;
  }

 private:
  // The first token that has text loses its blanks; the rule follows the library step by step.
  void append_piece(std::string_view token) {
    if (took_first_blank_ || has_text_) is_start_ = false;
    took_first_blank_ = false;
    if (token == options_.unk_piece) {
      text_ += options_.unk_surface;
      return;
    }
    if (is_start_ && options_.drops_first_blank && token.starts_with(kMetaspaceUtf8)) {
      token.remove_prefix(kMetaspaceUtf8.size());
      took_first_blank_ = !options_.drops_first_blanks;
    }
    append_with_blanks(token, text_);
  }

  void emit() {
    if (text_.empty()) return;
    has_text_ = true;
    next().push(text_);
  }

  const SentencePieceDecoderOptions& options_;
  Utf8Assembler assembler_;
  std::string text_;
  bool has_text_ = false;
  bool is_start_ = true;
  bool took_first_blank_ = false;
};

class SentencePieceStep final : public DecoderStep {
 public:
  explicit SentencePieceStep(SentencePieceDecoderOptions options) : options_(std::move(options)) {}
  std::unique_ptr<DecoderStage> make_stage(DecoderStage* next, bool) const override {
    return std::make_unique<SentencePieceStage>(next, options_);
  }
  bool fuses() const override { return true; }
  std::string later_bytes(std::string_view token, bool) const override {
    if (const auto byte = byte_of_token_name(token)) return {*byte};
    if (token == options_.unk_piece) return options_.unk_surface;
    std::string out;
    SentencePieceStage::append_with_blanks(token, out);
    return out;
  }

 private:
  SentencePieceDecoderOptions options_;
};

}  // namespace

std::unique_ptr<Normalizer> make_sentencepiece_normalizer(SentencePieceNormalizerOptions options) {
  return std::make_unique<SentencePieceNormalizer>(std::move(options));
}

std::unique_ptr<DecoderStep> make_sentencepiece_decoder(SentencePieceDecoderOptions options) {
  return std::make_unique<SentencePieceStep>(std::move(options));
}

}  // namespace coxswain::tokenizer
