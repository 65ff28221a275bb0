#pragma once
// Loops of one instruction each, compiled with that instruction's flags: call one only where
// CpuFeatures allows it. Each returns the number of operations it did for `rounds`, a multiply-add
// counted as two.

#include <stddef.h>

namespace coxswain::bench {

double spin_f32_avx2(size_t rounds);
double spin_f32_avx512(size_t rounds);
double spin_int8_avx512(size_t rounds);
double spin_bf16_avx512(size_t rounds);
double spin_int8_amx(size_t rounds);
double spin_bf16_amx(size_t rounds);

// Sums of [p, p + bytes), bytes a multiple of 256.
unsigned long long read_avx512(const void* p, size_t bytes);
unsigned long long read_avx2(const void* p, size_t bytes);

}  // namespace coxswain::bench
