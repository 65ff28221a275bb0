#include "tokenizer/pretokenizer_steps.h"

#include <algorithm>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/split_step.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

// Writes each piece anew: change(builder, piece) adds what becomes of it. The list of pieces is
// written over, as texts of short words have a long one.
template <typename Change>
void rewrite_pieces(PreText& pre, Change change) {
  AlignedBuilder out(pre.text);
  std::size_t n_pieces = 0;
  for (const PieceRange piece : pre.pieces) {
    const auto begin = static_cast<std::uint32_t>(out.size());
    change(out, piece);
    if (out.size() > begin)
      pre.pieces[n_pieces++] = {begin, static_cast<std::uint32_t>(out.size())};
  }
  pre.pieces.resize(n_pieces);
  pre.text = AlignedText(std::move(out).finish());
}

class PrefixSpaceStep final : public PreTokenizer {
 public:
  Status apply(PreText& pre) const override {
    const auto lacks = [&](PieceRange piece) { return pre.text.text()[piece.begin] != ' '; };
    if (std::none_of(pre.pieces.begin(), pre.pieces.end(), lacks)) return {};
    rewrite_pieces(pre, [&](AlignedBuilder& out, PieceRange piece) {
      if (lacks(piece)) out.put(" ", piece.begin, piece.begin);
      out.keep(piece.begin, piece.end);
    });
    return {};
  }
};

// Writes every byte as a character of the byte alphabet.
class ByteAlphabetStep final : public PreTokenizer {
 public:
  Status apply(PreText& pre) const override {
    rewrite_pieces(pre, [&](AlignedBuilder& out, PieceRange piece) {
      std::string characters;
      for (std::size_t at = piece.begin; at < piece.end;) {
        const std::size_t end = at + code_point_at(pre.text.text(), at).n_bytes;
        characters.clear();
        append_byte_characters(characters, pre.text.text().substr(at, end - at));
        out.put(characters, at, end);
        at = end;
      }
    });
    return {};
  }
};

class MetaspaceStep final : public PreTokenizer {
 public:
  MetaspaceStep(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme) {
    if (split) split_ = make_literal_split(replacement_, {SplitBehavior::kMergedWithNext, false});
  }

  Status apply(PreText& pre) const override {
    write(pre);
    return split_ ? split_->apply(pre) : Status();
  }
  Status run(PreText& pre, PieceVisitor visit) const override {
    write(pre);
    if (split_) return split_->run(pre, visit);
    visit(pre.pieces);
    return {};
  }

 private:
  void write(PreText& pre) const {
    const std::string_view text = pre.text.text();
    rewrite_pieces(pre, [&](AlignedBuilder& out, PieceRange piece) {
      const std::string_view source = text.substr(piece.begin, piece.end - piece.begin);
      const bool has_prefix = source.starts_with(' ') || source.starts_with(replacement_);
      const bool wants = scheme_ == PrependScheme::kAlways ||
                         (scheme_ == PrependScheme::kFirst && pre.text.begins_input(piece.begin));
      if (wants && !has_prefix) out.put(replacement_, piece.begin, piece.begin);
      std::size_t kept_to = piece.begin;
      for (std::size_t at = piece.begin; at < piece.end; ++at) {
        if (text[at] != ' ') continue;
        out.keep(kept_to, at);
        out.put(replacement_, at, at + 1);
        kept_to = at + 1;
      }
      out.keep(kept_to, piece.end);
    });
  }

  std::string replacement_;
  PrependScheme scheme_;
  std::unique_ptr<PreTokenizer> split_;
};

class SequenceStep final : public PreTokenizer {
 public:
  explicit SequenceStep(std::vector<std::unique_ptr<PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  Status apply(PreText& pre) const override {
    for (const auto& part : parts_) COXSWAIN_RETURN_IF_ERROR(part->apply(pre));
    return {};
  }
  // The cutting steps at the end work on each other's batches.
  Status run(PreText& pre, PieceVisitor visit) const override {
    std::size_t n_whole = parts_.size();
    while (n_whole > 0 && parts_[n_whole - 1]->as_cut() != nullptr) --n_whole;
    for (std::size_t i = 0; i < n_whole; ++i) {
      if (i + 1 == parts_.size()) return parts_[i]->run(pre, visit);
      COXSWAIN_RETURN_IF_ERROR(parts_[i]->apply(pre));
    }
    return cut_from(n_whole, pre.text.text(), pre.pieces, visit);
  }

 private:
  Status cut_from(std::size_t first,
                  std::string_view text,
                  std::span<const PieceRange> pieces,
                  PieceVisitor visit) const {
    const CutStep& step = *parts_[first]->as_cut();
    if (first + 1 == parts_.size()) return step.cut(text, pieces, visit);
    Status inner;
    bool is_wanted = true;
    const Status own = step.cut(text, pieces, [&](std::span<const PieceRange> cut) {
      inner = cut_from(first + 1, text, cut, [&](std::span<const PieceRange> last) {
        return is_wanted = visit(last);
      });
      return is_wanted && inner.ok();
    });
    return inner.ok() ? own : inner;
  }

  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_prefix_space() {
  return std::make_unique<PrefixSpaceStep>();
}

std::unique_ptr<PreTokenizer> make_byte_alphabet() {
  return std::make_unique<ByteAlphabetStep>();
}

std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement,
                                             PrependScheme scheme,
                                             bool split) {
  return std::make_unique<MetaspaceStep>(std::move(replacement), scheme, split);
}

std::unique_ptr<PreTokenizer> make_pre_sequence(std::vector<std::unique_ptr<PreTokenizer>> parts) {
  return std::make_unique<SequenceStep>(std::move(parts));
}

}  // namespace coxswain::tokenizer
