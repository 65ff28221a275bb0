#pragma once
// Runs the machine code of AMX kernels on CPUs without AMX, for tests: there a tile instruction is
// illegal, and a handler of SIGILL performs it on tiles of the thread and goes on behind it.
//
// A use of tiles that a CPU would refuse ends the process with a line on stderr. So does any other illegal
// instruction. Needs AVX-512 F.
//
// Thread rule: install once, any thread; counts from anywhere.

#include <cstdint>

namespace coxswain::kernels::testing {

// Tile instructions performed by this process so far.
struct TileCounts {
  std::uint64_t configurations = 0;  // LDTILECFG
  std::uint64_t releases = 0;
  std::uint64_t zeros = 0;
  std::uint64_t loads = 0;
  std::uint64_t stores = 0;
  std::uint64_t products = 0;
};

void install_tile_trap();

// Whether cpu_features() of emulated_features.cc installed the trap, because the CPU has AVX-512
// and BF16 but no tiles of its own.
bool tiles_are_emulated();

TileCounts tile_counts();

}  // namespace coxswain::kernels::testing
