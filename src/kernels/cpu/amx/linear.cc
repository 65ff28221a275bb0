// Linear kernels on AMX tiles: the instructions.

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/amx/linear.h"

// Tile numbers are part of the instruction. The state of the tiles is invisible to the compiler, so
// everything here is volatile.
class Tiles {
 public:
  explicit Tiles(const TileConfig& config) {
    // g++ 12's own intrinsic says that it reads 8 bytes of the configuration, and stores to the
    // rest may be dropped.
    asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
  }
  ~Tiles() { asm volatile("tilerelease" : : : "memory"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  void load(const void* base, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(base), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  void store(void* base, size_t stride) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(base), "r"(stride), "i"(kTile)
                 : "memory");
  }
  template <int kSum, int kA, int kB>
  void dot_u8s8() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
  template <int kSum, int kA, int kB>
  void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
};

}  // namespace

void fill_amx_linear(SetOps* ops) {
  // Activations and results are those of AVX-512. bf16 sums in another order, so every number of
  // rows goes through tiles.
  ops->linear[1].layout_id = 0x402;
  use_tiles<Tiles, Bf16>(&ops->linear[1]);
  // int8 is exact: for a few rows vpdpbusd gives the same bits and reads weights as fast as memory
  // brings them.
  LinearKernel* int8 = &ops->linear[3];
  int8->layout_id = 0x404;
  int8->tile_few = int8->tile;
  int8->few_rows = int8->row_tile;
  int8->stream_ahead = 4096;  // gains on the CPUs that have tiles; without them it costs some 7 %
  use_tiles<Tiles, Int8>(int8);
}

}  // namespace coxswain::kernels
