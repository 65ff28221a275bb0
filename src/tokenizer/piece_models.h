#pragma once
// Makes the parts of a tokenizer from a list of SentencePiece pieces; shared by .model and GGUF files.
//
// Thread rule: pure function.

#include "tokenizer/pipeline.h"
#include "tokenizer/sentencepiece.h"

namespace coxswain::tokenizer {

// Whether the control pieces' text is found in the input. The SentencePiece library never does
// that; a model folder's tokenizer does.
enum class ControlPieces { kIgnored, kMatched };

Result<TokenizerParts> parts_from_pieces(const SentencePieceModel& model, ControlPieces control);

}  // namespace coxswain::tokenizer
