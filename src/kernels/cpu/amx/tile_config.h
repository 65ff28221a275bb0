#ifndef COXSWAIN_KERNELS_CPU_AMX_TILE_CONFIG_H_
#define COXSWAIN_KERNELS_CPU_AMX_TILE_CONFIG_H_
// How the tiles of a thread are configured: Intel SDM volume 1, chapter 18, palette 1.
// Included inside an anonymous namespace, after <stddef.h> and <stdint.h>.

constexpr size_t kTiles = 8;
constexpr size_t kTileRows = 16;
constexpr size_t kTileBytes = 64;  // of a tile's row

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// g++ 12's own intrinsic says that it reads 8 bytes of the configuration, and stores to the rest
// may be dropped.
inline void load_tile_config(const TileConfig& config) {
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

#endif  // COXSWAIN_KERNELS_CPU_AMX_TILE_CONFIG_H_
