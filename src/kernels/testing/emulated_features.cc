// cpu_features() of the tests: where the CPU has AVX-512 with BF16 but no tiles, they are performed
// by a trap, so that the set `amx` is one that runs. Linked before the module's own file.

#include <cstdio>

#include "kernels/cpu_features.h"
#include "kernels/testing/tile_trap.h"

namespace coxswain::kernels {
namespace {

struct TestFeatures {
  CpuFeatures features = detect_cpu_features();
  bool emulated = false;

  TestFeatures() {
    if (features.amx || !features.avx512_bf16) return;
    testing::install_tile_trap();
    features.amx = true;
    emulated = true;
    std::printf(
        "[ EMULATED ] amx: no tiles here, each tile instruction traps and runs in software\n");
  }
};

const TestFeatures& test_features() {
  static const TestFeatures features;
  return features;
}

}  // namespace

const CpuFeatures& cpu_features() {
  return test_features().features;
}

namespace testing {
bool tiles_are_emulated() {
  return test_features().emulated;
}
}  // namespace testing

}  // namespace coxswain::kernels
