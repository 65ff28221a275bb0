#pragma once
// exp, log and powers of one double, so that no logit and no choice hangs on the C library: glibc's differ between
// versions and between CPUs with and without FMA. Additions, multiplications and divisions in a fixed order, no tables;
// the same bits on every machine with IEEE 754 arithmetic. (std::sqrt, floor, ceil and round are exact and may stay.)
//
// Accuracy, measured against 80-bit references: below 0.54 units in the last place for log, below 0.65 for the others,
// where the result is a normal number.
//
// Thread rule: pure functions; rounding to nearest is expected (float_mode.h).

namespace coxswain::base {

// NaN for NaN; 0 below -745.2, infinity above 709.8.
double exp(double x);
// Exact for whole x.
double exp2(double x);
// -infinity for 0, NaN for NaN and below 0.
double log(double x);
// x^y. REQUIRES: x positive and finite, |y log x| below 64 for the accuracy above; otherwise less exact.
double pow(double x, double y);

}  // namespace coxswain::base
