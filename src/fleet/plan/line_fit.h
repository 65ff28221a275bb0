#pragma once
// LineFit: a + b x of what was measured lately, a and b not negative: what a thing takes at all, and for each of x.
//
// By least squares; half of the weight is that of the last 35. One that took long because its process stood still is
// taken as four times what was expected.
//
// Thread rule: one thread at a time.

#include <cstdint>

namespace coxswain::fleet {

class LineFit {
 public:
  void observe(double x, double y);  // REQUIRES: neither is negative

  double at(double x) const { return base_ + slope_ * x; }  // 0 before the first
  double slope() const { return slope_; }
  double ratio() const { return x_ > 0 ? y_ / x_ : 0; }  // what each x took in all, as it came
  std::uint64_t n_seen() const { return n_seen_; }

 private:
  void solve();

  // Decayed sums.
  double n_ = 0;
  double x_ = 0;
  double y_ = 0;
  double xx_ = 0;
  double xy_ = 0;
  std::uint64_t n_seen_ = 0;
  double base_ = 0;
  double slope_ = 0;
};

}  // namespace coxswain::fleet
