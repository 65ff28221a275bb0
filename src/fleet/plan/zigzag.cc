#include "fleet/plan/zigzag.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace coxswain::fleet {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double seconds_of(const ZigZagTimes& times, std::size_t task, std::uint32_t first_layer) {
  const auto from = times.compute_s.begin() + first_layer;
  return times.weights[task] * std::accumulate(from, times.compute_s.end(), 0.0);
}

double load_seconds(const ZigZagTimes& times) {
  return std::accumulate(times.load_s.begin(), times.load_s.end(), 0.0);
}

ZigZagRun summed(const ZigZagTimes& times, std::vector<ZigZagShare> shares) {
  ZigZagRun out{.shares = std::move(shares)};
  const double loaded_s = load_seconds(times);
  for (const ZigZagShare& share : out.shares) {
    out.mean_s += share.finished_s / static_cast<double>(out.shares.size());
    out.last_s = std::max(out.last_s, share.finished_s);
    out.n_by_end_of_load += share.finished_s <= loaded_s ? 1 : 0;
  }
  return out;
}

// Both replicas at work, from one event to the next.
class Run {
 public:
  explicit Run(const ZigZagTimes& times)
      : times_(times), tasks_(times.weights.size()), shares_(times.weights.size()) {
    double at = 0.0;
    for (const double load_s : times.load_s) arrives_.push_back(at += load_s);
  }

  std::vector<ZigZagShare> go() {
    while (n_finished_ < tasks_.size()) {
      give_to_donor();
      start_target();
      now_ = next_event();
      if (target_ends_ <= now_) end_layer();
      if (donor_ends_ <= now_) donor_ends_ = kNever;
    }
    return shares_;
  }

 private:
  std::uint32_t n_layers() const { return static_cast<std::uint32_t>(times_.compute_s.size()); }
  std::uint32_t ready() const {
    const auto end = std::upper_bound(arrives_.begin(), arrives_.end(), now_);
    return static_cast<std::uint32_t>(end - arrives_.begin());
  }

  void give_to_donor() {
    if (donor_ends_ < kNever || wanted_) return;
    wanted_ = donor_next(tasks_, ready() == n_layers(), running_);
    if (wanted_ && wanted_ != running_) hand_over();
  }

  void hand_over() {
    const std::size_t task = *wanted_;
    wanted_.reset();
    tasks_[task].gone = true;
    const std::uint32_t done = tasks_[task].layers_done;
    const double pause = done > 0 ? times_.handover_s : 0.0;
    donor_ends_ = now_ + pause + seconds_of(times_, task, done);
    shares_[task] = {done, donor_ends_};
    ++n_finished_;
  }

  void start_target() {
    if (running_) return;
    running_ = target_next(tasks_, ready());
    if (!running_) return;
    const std::uint32_t layer = tasks_[*running_].layers_done;
    target_ends_ = now_ + times_.weights[*running_] * times_.compute_s[layer];
  }

  void end_layer() {
    ZigZagTask& task = tasks_[*running_];
    const std::size_t at = *running_;
    running_.reset();
    target_ends_ = kNever;
    ++task.layers_done;
    if (task.layers_done == n_layers()) {
      task.gone = true;
      shares_[at] = {n_layers(), now_};
      ++n_finished_;
      if (wanted_ == at) wanted_.reset();
    } else if (wanted_ == at) {
      hand_over();
    }
  }

  double next_event() const {
    double at = std::min(target_ends_, donor_ends_);
    const auto arrival = std::upper_bound(arrives_.begin(), arrives_.end(), now_);
    return arrival == arrives_.end() ? at : std::min(at, *arrival);
  }

  const ZigZagTimes& times_;
  std::vector<double> arrives_;
  std::vector<ZigZagTask> tasks_;
  std::vector<ZigZagShare> shares_;
  std::size_t n_finished_ = 0;  // or certain to
  double now_ = 0.0;
  std::optional<std::size_t> running_;  // by the target
  std::optional<std::size_t> wanted_;   // by the donor, when the target's layer ends
  double target_ends_ = kNever;
  double donor_ends_ = kNever;
};

}  // namespace

std::optional<std::size_t> target_next(std::span<const ZigZagTask> tasks,
                                       std::uint32_t layers_ready) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!tasks[i].gone && tasks[i].layers_done < layers_ready) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> donor_next(std::span<const ZigZagTask> tasks,
                                      bool all_layers_ready,
                                      std::optional<std::size_t> running) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].gone || (all_layers_ready && running == i)) continue;
    return i;
  }
  return std::nullopt;
}

ZigZagRun zigzag(const ZigZagTimes& times) {
  return summed(times, Run(times).go());
}

ZigZagRun stop_the_world(const ZigZagTimes& times) {
  std::vector<ZigZagShare> shares;
  double donor_free = 0.0;
  double target_free = load_seconds(times);
  for (std::size_t i = 0; i < times.weights.size(); ++i) {
    const bool by_target = target_free < donor_free;
    double& free = by_target ? target_free : donor_free;
    free += seconds_of(times, i, 0);
    shares.push_back({by_target ? static_cast<std::uint32_t>(times.compute_s.size()) : 0, free});
  }
  return summed(times, std::move(shares));
}

bool live_pays(const ZigZagTimes& times) {
  return zigzag(times).mean_s <= stop_the_world(times).mean_s;
}

ZigZagRun without_target(const ZigZagTimes& times) {
  std::vector<ZigZagShare> shares;
  double free = 0.0;
  for (std::size_t i = 0; i < times.weights.size(); ++i) {
    shares.push_back({0, free += seconds_of(times, i, 0)});
  }
  return summed(times, std::move(shares));
}

}  // namespace coxswain::fleet
