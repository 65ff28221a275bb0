#pragma once
// The limits of the machine that a benchmark runs on, measured in the same run: what a figure is a share of.
//
// Peaks multiply in registers only. The read bandwidth is that of plain vector loads over 2 MiB
// pages, one stream a thread. Both move with the clock and with what else runs; read the bandwidth
// right before and after what is compared with it.

#include <cstddef>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "tensor/aligned_buffer.h"

namespace coxswain::bench {

// kWall; or kThread, the CPU time of the calling thread, for one thread beside other programs.
enum class Timer { kWall, kThread };
double now(Timer timer);  // seconds

// Operations per second of all threads, a multiply-add counted as two; 0 where the CPU cannot.
struct ComputePeaks {
  double f32 = 0.0;
  double bf16 = 0.0;      // vdpbf16ps
  double int8 = 0.0;      // vpdpbusd
  double amx_bf16 = 0.0;  // tdpbf16ps
  double amx_int8 = 0.0;  // tdpbusd
};

ComputePeaks measure_peaks(base::ThreadPool& pool, Timer timer);

// The peak of the instruction that a set multiplies weights of that type with.
double peak_for(const ComputePeaks& peaks, kernels::Isa isa, kernels::Arithmetic arithmetic);

// What other programs and guests take of all CPUs between begin() and end(), which may be repeated.
class OthersLoad {
 public:
  void begin();
  void end();
  double share() const;  // 0 .. 1

 private:
  struct Times {
    double busy_s = 0.0;  // of all CPUs
    double idle_s = 0.0;
    double own_s = 0.0;
  };
  static Times read();
  Times begin_;
  Times sum_;
};

// Reads a buffer that no cache holds; bytes per second, best of a few passes.
class ReadBandwidth {
 public:
  // Dies with a message if `bytes` cannot be allocated.
  explicit ReadBandwidth(std::size_t bytes);
  double measure(base::ThreadPool& pool, Timer timer) const;

 private:
  tensor::AlignedBuffer buffer_;
};

}  // namespace coxswain::bench
