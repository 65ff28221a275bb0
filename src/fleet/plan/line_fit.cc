#include "fleet/plan/line_fit.h"

#include <algorithm>

namespace coxswain::fleet {
namespace {

constexpr double kKept = 0.98;       // of the weight of a value when the next one comes
constexpr double kRatioMax = 4;      // what one value may teach
constexpr std::uint64_t kTrust = 4;  // from so many on there is something to compare with
// Of the squares of x: less spread than this is none.
constexpr double kSpreadMin = 1e-6;

}  // namespace

void LineFit::observe(double x, double y) {
  if (n_seen_ >= kTrust && at(x) > 0) y = std::min(y, kRatioMax * at(x));
  ++n_seen_;
  n_ = kKept * n_ + 1;
  x_ = kKept * x_ + x;
  y_ = kKept * y_ + y;
  xx_ = kKept * xx_ + x * x;
  xy_ = kKept * xy_ + x * y;
  solve();
}

// The best line of those without a negative part is the best one of all, or one that lacks a part.
void LineFit::solve() {
  const double spread = n_ * xx_ - x_ * x_;
  slope_ = spread > kSpreadMin * n_ * xx_ ? (n_ * xy_ - x_ * y_) / spread : -1;
  base_ = (y_ - slope_ * x_) / n_;
  if (slope_ >= 0 && base_ >= 0) return;
  const bool rises = spread <= kSpreadMin * n_ * xx_ || slope_ >= 0;
  slope_ = rises && xx_ > 0 ? xy_ / xx_ : 0;
  base_ = rises && xx_ > 0 ? 0 : y_ / n_;
}

}  // namespace coxswain::fleet
