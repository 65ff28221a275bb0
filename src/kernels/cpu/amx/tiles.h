#ifndef COXSWAIN_KERNELS_CPU_AMX_TILES_H_
#define COXSWAIN_KERNELS_CPU_AMX_TILES_H_
// The instructions on tiles. Included inside an anonymous namespace of coxswain::kernels, after tile_config.h.

// rows[i] rows for tile i.
inline TileConfig config_of(const size_t (&rows)[kTiles]) {
  TileConfig config;
  for (size_t i = 0; i < kTiles; ++i) {
    config.row_bytes[i] = rows[i] != 0 ? kTileBytes : 0;
    config.rows[i] = static_cast<uint8_t>(rows[i]);
  }
  return config;
}

// Tile numbers are part of the instruction. The state of the tiles is invisible to the compiler, so
// everything here is volatile. REQUIRES: a Tiles of the thread.
class TileUnit {
 public:
  template <int kTile>
  void zero() const {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  void load(const void* base, size_t stride) const {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(base), "r"(stride), "i"(kTile) : "memory");
  }
  // Of what is read once from the second-level cache and shall not push anything out of the first.
  template <int kTile>
  void load_once(const void* base, size_t stride) const {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(base), "r"(stride), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  void store(void* base, size_t stride) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(base), "r"(stride), "i"(kTile)
                 : "memory");
  }
  template <int kSum, int kA, int kB>
  void dot_u8s8() const {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
  template <int kSum, int kA, int kB>
  void dot_s8u8() const {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
  template <int kSum, int kA, int kB>
  void dot_s8s8() const {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
  template <int kSum, int kA, int kB>
  void dot_bf16() const {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
};

// The tiles of a thread, configured while it lives.
class Tiles : public TileUnit {
 public:
  explicit Tiles(const TileConfig& config) { configure(config); }
  ~Tiles() { asm volatile("tilerelease" : : : "memory"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  // What the tiles held is gone.
  void configure(const TileConfig& config) { load_tile_config(config); }
};

#endif  // COXSWAIN_KERNELS_CPU_AMX_TILES_H_
