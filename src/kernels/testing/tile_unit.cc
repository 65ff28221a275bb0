#include "kernels/testing/tile_unit.h"

#include <algorithm>
#include <cstring>

namespace coxswain::kernels::testing {
namespace {

bool any_of(const std::uint8_t* begin, const std::uint8_t* end) {
  return std::any_of(begin, end, [](std::uint8_t byte) { return byte != 0; });
}

// The four products of two groups, in 32 bits that wrap.
template <typename A, typename B>
std::uint32_t dot_group(const std::uint8_t* a, const std::uint8_t* b) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 4; ++i)
    sum += static_cast<std::uint32_t>(int{static_cast<A>(a[i])} * int{static_cast<B>(b[i])});
  return sum;
}

// C[m][n] += A[m][k] times B[k][n], all k.
template <typename A, typename B>
void dot_bytes(std::uint8_t* c,
               const std::uint8_t* a,
               const std::uint8_t* b,
               std::size_t rows,
               std::size_t groups,
               std::size_t outputs) {
  for (std::size_t m = 0; m < rows; ++m) {
    std::uint32_t sums[16] = {};
    std::memcpy(sums, c + 64 * m, 4 * outputs);
    for (std::size_t k = 0; k < groups; ++k) {
      for (std::size_t n = 0; n < outputs; ++n)
        sums[n] += dot_group<A, B>(a + 64 * m + 4 * k, b + 64 * k + 4 * n);
    }
    std::memcpy(c + 64 * m, sums, 4 * outputs);
  }
}

}  // namespace

const char* TileUnit::load_config(const std::uint8_t* from) {
  std::uint8_t config[64];
  std::memcpy(config, from, sizeof config);
  if (config[0] > 1) return "ldtilecfg: no such palette (#GP)";
  if (config[0] == 0) {
    release();
    return nullptr;
  }
  if (config[1] != 0) return "ldtilecfg: a restart row is not emulated";
  if (any_of(config + 2, config + 16))
    return "ldtilecfg: reserved bytes 2 to 15 are not zero (#GP)";
  if (any_of(config + 32, config + 48) || any_of(config + 56, config + 64))
    return "ldtilecfg: more than eight tiles (#GP)";
  for (std::size_t i = 0; i < kTiles; ++i) {
    std::uint16_t row_bytes = 0;
    std::memcpy(&row_bytes, config + 16 + 2 * i, 2);
    const std::uint8_t rows = config[48 + i];
    if (row_bytes > kRowBytes) return "ldtilecfg: a row of more than 64 bytes (#GP)";
    if (rows > kRows) return "ldtilecfg: more than 16 rows (#GP)";
    if ((rows == 0) != (row_bytes == 0))
      return "ldtilecfg: rows without bytes or bytes without rows (#GP)";
  }
  release();
  configured_ = true;
  std::memcpy(config_, config, sizeof config);
  for (std::size_t i = 0; i < kTiles; ++i) {
    tiles_[i].rows = config[48 + i];
    tiles_[i].row_bytes = config[16 + 2 * i];  // at most 64
  }
  return nullptr;
}

void TileUnit::release() {
  configured_ = false;
  std::memset(config_, 0, sizeof config_);
  for (Tile& tile : tiles_) {
    zero(tile);
    tile.rows = tile.row_bytes = 0;
    tile.written = false;
  }
}

void TileUnit::zero(Tile& tile) {
  std::memset(tile.data, 0, sizeof tile.data);
  tile.written = true;
}

void TileUnit::load(Tile& tile, const std::uint8_t* from, std::size_t stride) {
  zero(tile);
  for (std::size_t row = 0; row < tile.rows; ++row)
    std::memcpy(tile.data[row], from + row * stride, tile.row_bytes);
}

void TileUnit::store(const Tile& tile, std::uint8_t* to, std::size_t stride) const {
  for (std::size_t row = 0; row < tile.rows; ++row)
    std::memcpy(to + row * stride, tile.data[row], tile.row_bytes);
}

const char* TileUnit::refuse_dot(const TileInstruction& instruction) const {
  const Tile& c = tiles_[instruction.tile];
  const Tile& a = tiles_[instruction.a];
  const Tile& b = tiles_[instruction.b];
  if (instruction.tile == instruction.a || instruction.tile == instruction.b ||
      instruction.a == instruction.b)
    return "product: one tile in two places (#UD)";
  if (a.rows == 0 || b.rows == 0) return "product: a source tile is not configured (#UD)";
  if ((c.row_bytes | a.row_bytes | b.row_bytes) % 4 != 0)
    return "product: rows of no whole number of 32-bit groups (#UD)";
  if (c.rows != a.rows) return "product: sums and first source differ in rows (#UD)";
  if (c.row_bytes != b.row_bytes) return "product: sums and second source differ in columns (#UD)";
  if (a.row_bytes / 4 != b.rows) return "product: the sources differ in k (#UD)";
  if (!c.written || !a.written || !b.written)
    return "product: reads a tile that nothing was written to since ldtilecfg";
  return nullptr;
}

const char* TileUnit::dot(const TileInstruction& instruction) {
  if (const char* why = refuse_dot(instruction)) return why;
  Tile& sums = tiles_[instruction.tile];
  std::uint8_t* c = sums.data[0];
  const std::uint8_t* a = tiles_[instruction.a].data[0];
  const std::uint8_t* b = tiles_[instruction.b].data[0];
  const std::size_t groups = tiles_[instruction.b].rows;
  const std::size_t outputs = sums.row_bytes / 4;
  switch (instruction.op) {
    case TileOp::kDotBf16:
      tile_dot_bf16(c, a, b, sums.rows, groups, outputs);
      break;
    case TileOp::kDotS8S8:
      dot_bytes<std::int8_t, std::int8_t>(c, a, b, sums.rows, groups, outputs);
      break;
    case TileOp::kDotS8U8:
      dot_bytes<std::int8_t, std::uint8_t>(c, a, b, sums.rows, groups, outputs);
      break;
    case TileOp::kDotU8S8:
      dot_bytes<std::uint8_t, std::int8_t>(c, a, b, sums.rows, groups, outputs);
      break;
    default:
      dot_bytes<std::uint8_t, std::uint8_t>(c, a, b, sums.rows, groups, outputs);
      break;
  }
  return nullptr;
}

const char* TileUnit::perform(const TileInstruction& instruction,
                              std::uint8_t* memory,
                              std::size_t stride) {
  if (instruction.op == TileOp::kLoadConfig) return load_config(memory);
  if (instruction.op == TileOp::kStoreConfig) {
    std::memcpy(memory, config_, sizeof config_);
    return nullptr;
  }
  if (instruction.op == TileOp::kRelease) {
    release();
    return nullptr;
  }
  Tile& tile = tiles_[instruction.tile];
  if (!configured_) return "a tile is used before ldtilecfg (#UD)";
  if (tile.rows == 0) return "a tile is used that the configuration leaves out (#UD)";
  switch (instruction.op) {
    case TileOp::kZero:
      zero(tile);
      return nullptr;
    case TileOp::kLoad:
      load(tile, memory, stride);
      return nullptr;
    case TileOp::kStore:
      if (!tile.written) return "tilestored: nothing was written to this tile since ldtilecfg";
      store(tile, memory, stride);
      return nullptr;
    default:
      return dot(instruction);
  }
}

}  // namespace coxswain::kernels::testing
