#pragma once
// SentencePiece: its model file and its normalizer (sentencepiece_model.proto, normalizer.cc of the
// library, version 0.1.97). Thread rule: values.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "tokenizer/byte_trie.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/precompiled_charsmap.h"

namespace coxswain::tokenizer {

enum class PieceKind : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceKind kind = PieceKind::kNormal;
};

// What ModelProto says, with the library's defaults.
struct SentencePieceModel {
  enum class Type { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };
  std::vector<SentencePiece> pieces;
  Type type = Type::kUnigram;
  bool byte_fallback = false;
  bool blank_is_suffix = false;  // treat_whitespace_as_suffix
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
  std::string unk_surface = " \xE2\x81\x87 ";  // what an unknown token decodes to
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool prefixes_start_only = false;  // not in the file: see SentencePieceNormalizerOptions
  bool remove_extra_blanks = true;
  bool escape_blanks = true;
};

// Reads the protobuf encoding. Errors: kDataLoss naming the field at fault.
Result<SentencePieceModel> parse_sentencepiece_model(std::string_view bytes);

struct SentencePieceNormalizerOptions {
  PrecompiledCharsmap charsmap;
  ByteTrie user_defined;  // taken as they are
  bool add_dummy_prefix = true;
  // The blank is added at the start of the input, before no blank.
  bool prefixes_start_only = false;
  bool remove_extra_blanks = true;
  bool escape_blanks = true;
  bool blank_is_suffix = false;
};
std::unique_ptr<Normalizer> make_sentencepiece_normalizer(SentencePieceNormalizerOptions options);

struct SentencePieceDecoderOptions {
  std::string unk_piece;
  std::string unk_surface;
  bool drops_first_blank = true;   // the blank that the normalizer put before the text
  bool drops_first_blanks = true;  // all blanks at the start
};
std::unique_ptr<DecoderStep> make_sentencepiece_decoder(SentencePieceDecoderOptions options);

}  // namespace coxswain::tokenizer
