#include <cpuid.h>
#include <cstdint>
#include <unistd.h>

#include <sys/syscall.h>

#include "kernels/cpu_features.h"

namespace coxswain::kernels {
namespace {

// Intel SDM volume 2, CPUID; volume 1, chapter 13 (XCR0); Linux Documentation/arch/x86/xstate.rst (permission).
constexpr std::uint64_t kYmmState = 0x06;
constexpr std::uint64_t kZmmState = 0xE6;
constexpr std::uint64_t kTileState = 0x60000;
constexpr long kArchReqXcompPerm = 0x1023;
constexpr long kTileDataFeature = 18;

struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf leaf(unsigned number, unsigned sub = 0) {
  Leaf out;
  if (__get_cpuid_count(number, sub, &out.eax, &out.ebx, &out.ecx, &out.edx) == 0) return {};
  return out;
}

bool bit(unsigned word, int index) {
  return ((word >> index) & 1U) != 0;
}

std::uint64_t saved_state() {
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

}  // namespace

CpuFeatures detect_cpu_features() {
  CpuFeatures features;
  const Leaf one = leaf(1);
  if (!bit(one.ecx, 27)) return features;  // OSXSAVE
  const std::uint64_t state = saved_state();
  const Leaf seven = leaf(7);
  const Leaf seven_one = leaf(7, 1);
  features.avx2 = bit(seven.ebx, 5) && bit(one.ecx, 12) && bit(one.ecx, 29) && bit(one.ecx, 28) &&
                  (state & kYmmState) == kYmmState;
  features.avx512 = features.avx2 && bit(seven.ebx, 16) && bit(seven.ebx, 30) &&
                    bit(seven.ebx, 17) && bit(seven.ebx, 31) && bit(seven.ecx, 11) &&
                    (state & kZmmState) == kZmmState;
  features.avx512_bf16 = features.avx512 && bit(seven_one.eax, 5);
  const bool tiles = bit(seven.edx, 24) && bit(seven.edx, 25) && bit(seven.edx, 22) &&
                     (state & kTileState) == kTileState;
  features.amx = features.avx512_bf16 && tiles &&
                 syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileDataFeature) == 0;
  return features;
}

}  // namespace coxswain::kernels
