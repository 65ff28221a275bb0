#include "machine_limits.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <unistd.h>

#include <sys/resource.h>

#include "kernels/cpu_features.h"
#include "machine_limits_simd.h"
#include "require.h"

namespace coxswain::bench {
namespace {

// Best of three times about 30 ms on every thread at once.
double peak_of(base::ThreadPool& pool, Timer timer, double (*spin)(std::size_t)) {
  double start = now(timer);
  spin(100'000);
  const auto rounds =
      static_cast<std::size_t>(100'000 * 0.03 / std::max(now(timer) - start, 1e-6)) + 1;
  double best = 0.0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::atomic<double> operations{0.0};
    start = now(timer);
    pool.run(pool.n_threads() * 4,
             [&](std::size_t, std::size_t) { operations.fetch_add(spin(rounds)); });
    best = std::max(best, operations.load() / (now(timer) - start));
  }
  return best;
}

unsigned long long read_plain(const void* p, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(p);
  unsigned long long sum = 0;
  for (std::size_t i = 0; i < bytes; i += 8) {
    unsigned long long value = 0;
    std::memcpy(&value, at + i, 8);
    sum += value;
  }
  return sum;
}

}  // namespace

double now(Timer timer) {
  timespec time{};
  clock_gettime(timer == Timer::kThread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

ComputePeaks measure_peaks(base::ThreadPool& pool, Timer timer) {
  const kernels::CpuFeatures& cpu = kernels::cpu_features();
  ComputePeaks peaks;
  if (cpu.avx2) peaks.f32 = peak_of(pool, timer, spin_f32_avx2);
  if (cpu.avx512) peaks.f32 = std::max(peaks.f32, peak_of(pool, timer, spin_f32_avx512));
  if (cpu.avx512) peaks.int8 = peak_of(pool, timer, spin_int8_avx512);
  if (cpu.avx512_bf16) peaks.bf16 = peak_of(pool, timer, spin_bf16_avx512);
  if (cpu.amx) peaks.amx_int8 = peak_of(pool, timer, spin_int8_amx);
  if (cpu.amx) peaks.amx_bf16 = peak_of(pool, timer, spin_bf16_amx);
  return peaks;
}

double peak_for(const ComputePeaks& peaks, kernels::Isa isa, kernels::Arithmetic arithmetic) {
  const bool amx = isa == kernels::Isa::kAmx;
  switch (arithmetic) {
    case kernels::Arithmetic::kInteger:
      return amx ? peaks.amx_int8 : isa == kernels::Isa::kAvx512 ? peaks.int8 : peaks.f32 * 2;
    case kernels::Arithmetic::kBfloat16:
      return amx ? peaks.amx_bf16 : peaks.bf16;
    case kernels::Arithmetic::kFloat32:
      break;
  }
  return peaks.f32;
}

// The first line of /proc/stat: user nice system idle iowait irq softirq steal, in clock ticks.
OthersLoad::Times OthersLoad::read() {
  Times times;
  std::ifstream stat("/proc/stat");
  std::string cpu;
  stat >> cpu;
  const double tick_s = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  double ticks = 0.0;
  for (int i = 0; i < 8 && stat >> ticks; ++i)
    (i == 3 || i == 4 ? times.idle_s : times.busy_s) += ticks * tick_s;
  rusage own{};
  ::getrusage(RUSAGE_SELF, &own);
  for (const timeval& part : {own.ru_utime, own.ru_stime})
    times.own_s += static_cast<double>(part.tv_sec) + static_cast<double>(part.tv_usec) * 1e-6;
  return times;
}

void OthersLoad::begin() {
  begin_ = read();
}

void OthersLoad::end() {
  const Times now = read();
  sum_.busy_s += now.busy_s - begin_.busy_s;
  sum_.idle_s += now.idle_s - begin_.idle_s;
  sum_.own_s += now.own_s - begin_.own_s;
}

double OthersLoad::share() const {
  const double all = sum_.busy_s + sum_.idle_s;
  return all > 0.0 ? std::max(0.0, sum_.busy_s - sum_.own_s) / all : 0.0;
}

ReadBandwidth::ReadBandwidth(std::size_t bytes)
    : buffer_(require(tensor::AlignedBuffer::allocate(bytes / 256 * 256))) {
  std::memset(buffer_.data(), 1, buffer_.size());  // or every page is the one zero page
}

double ReadBandwidth::measure(base::ThreadPool& pool, Timer timer) const {
  const kernels::CpuFeatures& cpu = kernels::cpu_features();
  const auto read = cpu.avx512 ? read_avx512 : cpu.avx2 ? read_avx2 : read_plain;
  const std::size_t n_threads = pool.n_threads();
  const std::size_t share = buffer_.size() / n_threads / 256 * 256;
  double best = 0.0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::atomic<unsigned long long> sum{0};
    const double start = now(timer);
    pool.run(n_threads, [&](std::size_t i, std::size_t) {
      sum.fetch_add(read(buffer_.data() + i * share, share));
    });
    best = std::max(best, static_cast<double>(share * n_threads) / (now(timer) - start));
  }
  return best;
}

}  // namespace coxswain::bench
