#include "kernels/testing/tile_instruction.h"

#include <cstring>

namespace coxswain::kernels::testing {
namespace {

enum Prefix : std::uint8_t { kNone, k66, kF3, kF2 };  // VEX.pp

// The fields of a three-byte VEX prefix, inverted ones turned back.
struct Vex {
  std::uint8_t r, x, b;  // 8 or 0
  std::uint8_t map, w, vvvv, l;
  Prefix prefix;
};

Vex vex_of(std::uint8_t p1, std::uint8_t p2) {
  Vex vex{};
  vex.r = (p1 & 0x80) != 0 ? 0 : 8;
  vex.x = (p1 & 0x40) != 0 ? 0 : 8;
  vex.b = (p1 & 0x20) != 0 ? 0 : 8;
  vex.map = p1 & 0x1F;
  vex.w = p2 >> 7;
  vex.vvvv = static_cast<std::uint8_t>(~(p2 >> 3) & 0xF);
  vex.l = (p2 >> 2) & 1;
  vex.prefix = static_cast<Prefix>(p2 & 3);
  return vex;
}

// What follows ModRM. `end` moves behind it.
TileAddress address_of(const Vex& vex, const std::uint8_t*& end, std::uint8_t modrm) {
  const int mod = modrm >> 6;
  TileAddress out;
  bool wide = mod == 2;
  if ((modrm & 7) == 4) {
    const std::uint8_t sib = *end++;
    const auto index = static_cast<std::uint8_t>(((sib >> 3) & 7) | vex.x);
    if (index != 4) out.index = index;
    out.scale = sib >> 6;
    if (mod == 0 && (sib & 7) == 5) {
      wide = true;
    } else {
      out.base = static_cast<std::uint8_t>((sib & 7) | vex.b);
    }
  } else if (mod == 0 && (modrm & 7) == 5) {
    out.rip_relative = true;
    wide = true;
  } else {
    out.base = static_cast<std::uint8_t>((modrm & 7) | vex.b);
  }
  if (wide) {
    std::memcpy(&out.displacement, end, 4);
    end += 4;
  } else if (mod == 1) {
    out.displacement = (*end++ ^ 0x80) - 0x80;  // with its sign
  }
  return out;
}

std::optional<TileOp> dot_of(std::uint8_t opcode, Prefix prefix) {
  if (opcode == 0x5C) {
    if (prefix != kF3) return std::nullopt;
    return TileOp::kDotBf16;
  }
  switch (prefix) {
    case kNone:
      return TileOp::kDotU8U8;
    case k66:
      return TileOp::kDotU8S8;
    case kF3:
      return TileOp::kDotS8U8;
    case kF2:
      return TileOp::kDotS8S8;
  }
  return std::nullopt;
}

std::optional<TileOp> op_of(std::uint8_t opcode, Prefix prefix, std::uint8_t modrm) {
  const bool memory = modrm < 0xC0;
  const int reg = (modrm >> 3) & 7;
  if (opcode == 0x5C || opcode == 0x5E) return memory ? std::nullopt : dot_of(opcode, prefix);
  if (opcode == 0x4B) {
    if (!memory || (modrm & 7) != 4 || prefix == kNone) return std::nullopt;
    return prefix == kF3 ? TileOp::kStore : TileOp::kLoad;
  }
  if (opcode != 0x49) return std::nullopt;
  if (prefix == kNone && modrm == 0xC0) return TileOp::kRelease;
  if (prefix == kNone && memory && reg == 0) return TileOp::kLoadConfig;
  if (prefix == k66 && memory && reg == 0) return TileOp::kStoreConfig;
  if (prefix == kF2 && !memory && (modrm & 7) == 0) return TileOp::kZero;
  return std::nullopt;
}

}  // namespace

std::optional<TileInstruction> decode_tile_instruction(const std::uint8_t* code) {
  constexpr std::uint8_t kMap0F38 = 2;
  if (code[0] != 0xC4) return std::nullopt;
  const Vex vex = vex_of(code[1], code[2]);
  if (vex.map != kMap0F38 || vex.w != 0 || vex.l != 0 || vex.r != 0) return std::nullopt;
  const std::uint8_t modrm = code[4];
  const auto op = op_of(code[3], vex.prefix, modrm);
  if (!op) return std::nullopt;
  TileInstruction out;
  out.op = *op;
  out.tile = (modrm >> 3) & 7;
  const std::uint8_t* end = code + 5;
  if (modrm < 0xC0) {
    out.address = address_of(vex, end, modrm);
  } else {
    out.a = static_cast<std::uint8_t>((modrm & 7) | vex.b);
  }
  const bool dot = *op >= TileOp::kDotBf16;
  if (!dot && vex.vvvv != 0) return std::nullopt;
  if (dot) out.b = vex.vvvv;
  if (out.a > 7 || out.b > 7) return std::nullopt;
  out.length = static_cast<std::uint8_t>(end - code);
  return out;
}

}  // namespace coxswain::kernels::testing
