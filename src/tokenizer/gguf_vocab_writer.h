#pragma once
// A model folder's tokenizer.json as the keys of a GGUF file: the lists that llama.cpp reads (tokenizer.ggml.*), and
// the file itself, which our reader prefers: lists lack what added tokens do to blanks beside them, and normalizers.
//
// Thread rule: pure functions of the files.

#include <cstdint>
#include <filesystem>
#include <span>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "gguf/writer.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::tokenizer {

// `n_rows` of the embedding: a token for each. `end_tokens` are the model's: the tokenizer's own is the first there, at
// most two more have keys.
// Errors: those of Tokenizer::load(); kUnimplemented, naming the part of the file, for a tokenizer that such lists
// cannot hold: other models than BPE, splits without a name, normalizers but blanks and NFC.
Status add_gguf_vocabulary(const std::filesystem::path& folder,
                           std::uint64_t n_rows,
                           std::span<const TokenId> end_tokens,
                           gguf::KeyList& keys);

// The tokenizer that a header's lists alone are.
Result<std::shared_ptr<const Tokenizer>> tokenizer_of_lists(const gguf::Header& header);

}  // namespace coxswain::tokenizer
