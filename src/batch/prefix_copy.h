#pragma once
// Copies of cached prefixes: the keys and values of whole blocks, out of an engine's runner and into it, as attachments
// of a piece each (block_transfers.h), while the engine goes on with its requests.
//
// Thread rule: any thread but the engine's; the calls wait. The engine lives at least until they return.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <coxswain/kv_layout.h>
#include <coxswain/status.h>

#include "batch/engine.h"

namespace coxswain::batch {

// How a prefix is divided: pieces of piece_blocks blocks, the last one of what is left.
struct PrefixPieces {
  std::uint32_t n_blocks = 0;
  std::uint32_t piece_blocks = 0;
  std::vector<std::uint32_t> first_blocks = {};  // HeldPrefix::first_blocks

  std::uint32_t n_pieces() const {
    return piece_blocks == 0 ? 0 : (n_blocks + piece_blocks - 1) / piece_blocks;
  }
  friend bool operator==(const PrefixPieces&, const PrefixPieces&) = default;
};

// What of `query` counts is what decides which prefixes it finds: prompt, max_new_tokens, adapter, salt.
using TakePiece = std::function<Status(std::uint32_t index, std::string image)>;
using BringPiece = std::function<Result<std::string>(std::uint32_t index)>;

// Hands what is cached of the prompt to `take`, in order; nothing, where nothing is cached or blocks do not leave the
// runner. Errors: those of `take` and of the runner.
Result<PrefixPieces> export_prefix(Engine& engine,
                                   const GenerationRequest& query,
                                   const TakePiece& take);

// Asks `bring` for the pieces that are not cached, in order, and makes the prefix known to the cache; all or nothing.
// REQUIRES: pieces.n_blocks whole blocks in the prompt. Errors: those of `bring`; kResourceExhausted: the cache has no
// room for so many blocks; kUnimplemented: no blocks enter the runner, or not these; or what the runner
// says of an image when it is attached.
Status import_prefix(Engine& engine,
                     const GenerationRequest& query,
                     const PrefixPieces& pieces,
                     const BringPiece& bring);

}  // namespace coxswain::batch
