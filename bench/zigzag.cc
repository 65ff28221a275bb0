// coxswain-bench-zigzag: a backlog at one replica while another one loads, under each way to share it; kHelp says more.

#include "fleet/plan/zigzag.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "arguments.h"

namespace coxswain {
namespace {

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-zigzag [--layers N] [--load N] [--batches N]

N batches (12) of equal size wait at a replica with all N layers (32), the donor; another one, the target, receives a
layer in N times (6) the time that a batch takes for one. In units of that time, by the policies of fleet/plan/zigzag.h:

  zigzag       the target runs the layers that it has, the donor takes over the earliest batch when it is idle
  stop         the target waits for its last layer
  best_effort  the target runs of each batch the layers that are there when it begins, then queues it at the donor
  donor        no target

Prints a JSON object: of each the mean and last time, and how many batches end while the target loads.
)";

using fleet::ZigZagRun;
using fleet::ZigZagTimes;

constexpr double kNever = std::numeric_limits<double>::infinity();

class BestEffort {
 public:
  BestEffort(std::uint32_t n_layers, double load, std::uint32_t n_batches)
      : n_layers_(n_layers), load_(load), n_left_(n_batches), n_batches_(n_batches) {}

  ZigZagRun go() {
    ZigZagRun out;
    while (out.shares.size() < n_batches_) {
      start();
      const double layer = target_layers_ == 0 && n_left_ > 0 && ready() == 0 ? load_ : kNever;
      now_ = std::min({target_ends_, donor_ends_, layer});
      if (donor_ends_ <= now_) {
        donor_ends_ = kNever;
        finish(out);
      }
      if (target_ends_ > now_) continue;
      target_ends_ = kNever;
      if (target_layers_ == n_layers_) {
        finish(out);
      } else {
        handed_.push_back(target_layers_);
      }
      target_layers_ = 0;
    }
    return out;
  }

 private:
  std::uint32_t ready() const {
    return std::min(n_layers_, static_cast<std::uint32_t>(std::floor(now_ / load_ + 1e-9)));
  }

  void start() {
    if (donor_ends_ == kNever && !handed_.empty()) {
      donor_ends_ = now_ + (n_layers_ - handed_.front());
      handed_.pop_front();
    } else if (donor_ends_ == kNever && n_left_ > 0) {
      donor_ends_ = now_ + n_layers_;
      --n_left_;
    }
    if (target_layers_ > 0 || n_left_ == 0 || ready() == 0) return;
    target_layers_ = ready();
    target_ends_ = now_ + target_layers_;
    --n_left_;
  }

  void finish(ZigZagRun& out) const {
    out.shares.push_back({.target_layers = 0, .finished_s = now_});
    out.mean_s += now_ / n_batches_;
    out.last_s = now_;
    out.n_by_end_of_load += now_ <= load_ * n_layers_ ? 1 : 0;
  }

  const std::uint32_t n_layers_;
  const double load_;
  std::uint32_t n_left_;  // that nobody has begun
  const std::uint32_t n_batches_;
  double now_ = 0.0;
  double donor_ends_ = kNever;
  double target_ends_ = kNever;
  std::uint32_t target_layers_ = 0;        // of the batch that it runs
  std::deque<std::uint32_t> handed_ = {};  // layers done of those that wait for the donor
};

void print(std::string_view name, const ZigZagRun& run, std::string_view end) {
  std::printf("\"%s\": {\"mean\": %.3f, \"last\": %.3f, \"by_end_of_load\": %zu}%s",
              name.data(),
              run.mean_s,
              run.last_s,
              run.n_by_end_of_load,
              end.data());
}

int run(int argc, char** argv) {
  bench::Arguments arguments(argc, argv, kHelp);
  const std::uint32_t n_layers = arguments.count("layers", 32);
  const std::uint32_t load = arguments.count("load", 6);
  const std::uint32_t n_batches = arguments.count("batches", 12);
  arguments.finish();
  const ZigZagTimes times{.load_s = std::vector<double>(n_layers, load),
                          .compute_s = std::vector<double>(n_layers, 1.0),
                          .weights = std::vector<double>(n_batches, 1.0)};
  std::printf("{");
  print("zigzag", fleet::zigzag(times), ", ");
  print("stop", fleet::stop_the_world(times), ", ");
  print("best_effort", BestEffort(n_layers, load, n_batches).go(), ", ");
  print("donor", fleet::without_target(times), "}\n");
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  return coxswain::run(argc, argv);
}
