#pragma once
// Pre-tokenizers: cut a text into pieces that the model encodes one by one.
//
// Thread rule: immutable.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "base/function_ref.h"
#include "tokenizer/aligned_text.h"
#include "tokenizer/split_scanner.h"

namespace coxswain::json {
class Value;
}

namespace coxswain::tokenizer {

// A text and the pieces that it is cut into: in order, not empty, without overlap. What lies
// between two pieces has been removed.
struct PreText {
  AlignedText text;
  std::vector<PieceRange> pieces;
};

// Takes the next pieces; false = no more are wanted.
using PieceVisitor = base::FunctionRef<bool(std::span<const PieceRange> pieces)>;

// Hands pieces on in batches, so that a text of many pieces needs no list of them all.
class PieceBatch {
 public:
  static constexpr std::size_t kPieces = 512;

  explicit PieceBatch(PieceVisitor visit) : visit_(visit) {}
  // Pieces of nothing are dropped.
  void add(PieceRange piece) {
    if (piece.begin == piece.end) return;
    pieces_[n_++] = piece;
    if (n_ == kPieces) flush();
  }
  void flush() {
    if (n_ > 0 && is_wanted_) is_wanted_ = visit_(std::span(pieces_).first(n_));
    n_ = 0;
  }
  bool is_wanted() const { return is_wanted_; }

 private:
  PieceVisitor visit_;
  std::array<PieceRange, kPieces> pieces_;
  std::size_t n_ = 0;
  bool is_wanted_ = true;
};

class CutStep;

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Errors: kResourceExhausted if a regular expression runs into its limits.
  virtual Status apply(PreText& pre) const = 0;
  // The same, but the new pieces go to `visit`, batch by batch, once pre.text is what they lie in;
  // pre.pieces is not what they are.
  virtual Status run(PreText& pre, PieceVisitor visit) const;
  // This step, if it leaves the text as it is.
  virtual const CutStep* as_cut() const { return nullptr; }
};

// A step that cuts pieces and leaves the text as it is.
class CutStep : public PreTokenizer {
 public:
  virtual Status cut(std::string_view text,
                     std::span<const PieceRange> pieces,
                     PieceVisitor visit) const = 0;

  Status apply(PreText& pre) const final;
  Status run(PreText& pre, PieceVisitor visit) const final {
    return cut(pre.text.text(), pre.pieces, visit);
  }
  const CutStep* as_cut() const final { return this; }
};

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// When a blank goes before the text: always, only at the start of the input, never.
enum class PrependScheme { kAlways, kFirst, kNever };

// Cuts before every `replacement`, which stands for a blank.
std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement,
                                             PrependScheme scheme,
                                             bool split);
std::unique_ptr<PreTokenizer> make_pre_sequence(std::vector<std::unique_ptr<PreTokenizer>> parts);

// The "pre_tokenizer" section of a tokenizer.json.
struct PreTokenizerPlan {
  std::unique_ptr<PreTokenizer> steps;  // nullptr: the text is one piece
  // A ByteLevel step comes last: what the model is trained on are the bytes of the pieces, written
  // in the byte alphabet. Writing them so is left out of `steps`.
  bool leaves_bytes = false;
  std::string unknown_pattern;  // a pattern without a scanner, empty if there is none
};

// Errors: kInvalidArgument naming the member at fault below `where`.
Result<PreTokenizerPlan> parse_pre_tokenizer(const json::Value& section, const std::string& where);

}  // namespace coxswain::tokenizer
