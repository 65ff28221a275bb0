#pragma once
// The tiles of one thread and what AMX instructions do to them, in software, for tests.
//
// Source: the pseudo-code of Intel SDM volume 2 (LDTILECFG, STTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBF16PS,
// TDPBSSD and its kin), palette 1. What raises #UD or #GP there is an error here. Stricter than a CPU in two points,
// which only a mistake can meet: a tile is an error to read before something was written to it (a CPU reads zeros),
// and so is a configuration with a restart row.
//
// Thread rule: one unit a thread. Everything is safe inside a handler of a signal that an instruction raised.

#include <cstddef>
#include <cstdint>

#include "kernels/testing/tile_instruction.h"

namespace coxswain::kernels::testing {

class TileUnit {
 public:
  // `memory` and `stride` (bytes) for those that use memory. Null, or why a CPU would refuse.
  const char* perform(const TileInstruction& instruction, std::uint8_t* memory, std::size_t stride);

 private:
  static constexpr std::size_t kTiles = 8;
  static constexpr std::size_t kRows = 16;
  static constexpr std::size_t kRowBytes = 64;
  struct Tile {
    std::size_t rows = 0;
    std::size_t row_bytes = 0;
    bool written = false;
    alignas(64) std::uint8_t data[kRows][kRowBytes] = {};
  };

  const char* load_config(const std::uint8_t* from);
  void release();
  void zero(Tile& tile);
  void load(Tile& tile, const std::uint8_t* from, std::size_t stride);
  void store(const Tile& tile, std::uint8_t* to, std::size_t stride) const;
  const char* dot(const TileInstruction& instruction);
  const char* refuse_dot(const TileInstruction& instruction) const;

  bool configured_ = false;
  std::uint8_t config_[64] = {};
  Tile tiles_[kTiles];
};

// TDPBF16PS on `rows` rows of A [pairs], B [pairs][outputs] and C, rows of 64 bytes. Needs AVX-512
// F.
void tile_dot_bf16(std::uint8_t* c,
                   const std::uint8_t* a,
                   const std::uint8_t* b,
                   std::size_t rows,
                   std::size_t pairs,
                   std::size_t outputs);

}  // namespace coxswain::kernels::testing
