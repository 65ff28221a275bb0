#pragma once
// What this CPU and its operating system can run, asked once.

namespace coxswain::kernels {

struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA, F16C, and YMM state saved
  bool avx512 = false;       // AVX-512 F, BW, DQ, VL and VNNI, and ZMM state saved
  bool avx512_bf16 = false;  // vdpbf16ps
  bool amx = false;          // AMX tile, int8 and bf16, and the kernel lets this process use tiles
};

// Asks the CPU, and where it has tiles the kernel for the right to use them.
CpuFeatures detect_cpu_features();

// The same, asked once per process.
const CpuFeatures& cpu_features();

}  // namespace coxswain::kernels
