#pragma once
// Decodes the AMX instructions of a 64-bit process, for tests that perform them in software.
//
// Source: Intel SDM volume 2, the pages of the instructions and section 2.3 (VEX). Forms with a
// segment or address-size prefix are not known; nothing here uses them.

#include <cstdint>
#include <optional>

namespace coxswain::kernels::testing {

enum class TileOp : std::uint8_t {
  kLoadConfig,
  kStoreConfig,
  kRelease,
  kZero,
  kLoad,     // TILELOADD and TILELOADDT1
  kStore,    // TILESTORED
  kDotBf16,  // TDPBF16PS
  kDotS8S8,
  kDotS8U8,
  kDotU8S8,
  kDotU8U8
};

inline constexpr std::uint8_t kNoRegister = 0xFF;

// base + displacement, and index << scale: part of the address of a configuration, the distance of
// rows for tiles. Registers by their number in instructions (0 rax, 1 rcx, ... 15 r15).
struct TileAddress {
  std::uint8_t base = kNoRegister;
  std::uint8_t index = kNoRegister;
  std::uint8_t scale = 0;
  bool rip_relative = false;  // to the end of the instruction
  std::int32_t displacement = 0;
};

struct TileInstruction {
  TileOp op = TileOp::kRelease;
  std::uint8_t length = 0;  // bytes
  std::uint8_t tile = 0;    // read and written: ModRM.reg
  std::uint8_t a = 0;       // first source of a product: ModRM.rm
  std::uint8_t b = 0;       // second source: VEX.vvvv
  TileAddress address;
};

// Reads as many bytes of `code` as the instruction has. Nothing if it is no valid tile instruction.
std::optional<TileInstruction> decode_tile_instruction(const std::uint8_t* code);

}  // namespace coxswain::kernels::testing
