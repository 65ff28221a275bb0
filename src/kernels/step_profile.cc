#include "kernels/step_profile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace coxswain::kernels {
namespace {

using Stopwatch = std::chrono::steady_clock;

double seconds_since(Stopwatch::time_point begin) {
  return std::chrono::duration<double>(Stopwatch::now() - begin).count();
}

template <std::size_t kEntry, auto kMember, class Args>
void timed(ExecContext& exec, const Args& args) {
  StepProfile& profile = *exec.profile();
  const auto begin = Stopwatch::now();
  (profile.wrapped().*kMember)(exec, args);
  profile.add(kEntry, seconds_since(begin));
}

void timed_linear(ExecContext& exec, const LinearCall& call) {
  StepProfile& profile = *exec.profile();
  const auto begin = Stopwatch::now();
  profile.wrapped().linear(exec, call);
  profile.add(call, seconds_since(begin));
}

template <std::size_t kEntry, auto kMember, class Args>
void wrap_one(KernelTable& table,
              void (*KernelTable::* /*deduces Args*/)(ExecContext&, const Args&)) {
  table.*kMember = &timed<kEntry, kMember, Args>;
}

template <auto... kMembers>
struct Entries {
  static constexpr std::size_t kCount = sizeof...(kMembers);

  static void wrap(KernelTable& table) { wrap(table, std::make_index_sequence<kCount>{}); }

 private:
  template <std::size_t... kEntries>
  static void wrap(KernelTable& table, std::index_sequence<kEntries...> /*numbers*/) {
    (wrap_one<kEntries, kMembers>(table, kMembers), ...);
  }
};

// All but linear, which is told apart by shape.
using Timed = Entries<&KernelTable::kv_write,
                      &KernelTable::attention,
                      &KernelTable::rms_norm,
                      &KernelTable::layer_norm,
                      &KernelTable::rope,
                      &KernelTable::activation,
                      &KernelTable::clamped_swiglu,
                      &KernelTable::add,
                      &KernelTable::gated_add,
                      &KernelTable::clip,
                      &KernelTable::soft_cap,
                      &KernelTable::look_up,
                      &KernelTable::look_up_packed,
                      &KernelTable::rope_angles,
                      &KernelTable::choose_experts,
                      &KernelTable::group_rows,
                      &KernelTable::gather,
                      &KernelTable::combine>;
constexpr std::array<const char*, Timed::kCount> kNames{"kv_write",
                                                        "attention",
                                                        "rms_norm",
                                                        "layer_norm",
                                                        "rope",
                                                        "activation",
                                                        "clamped_swiglu",
                                                        "add",
                                                        "gated_add",
                                                        "clip",
                                                        "soft_cap",
                                                        "look_up",
                                                        "look_up_packed",
                                                        "rope_angles",
                                                        "choose_experts",
                                                        "group_rows",
                                                        "gather",
                                                        "combine"};

}  // namespace

StepProfile::StepProfile(const KernelTable& kernels)
    : wrapped_(kernels), timed_(kernels), entries_(Timed::kCount) {
  Timed::wrap(timed_);
  timed_.linear = &timed_linear;
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].name = kNames[i];
}

void StepProfile::add(const LinearCall& call, double seconds) {
  if (call.problems.empty()) return;
  const LinearProblem& first = call.problems.front();
  const std::size_t k = call.inputs[first.input].k;
  std::size_t n = 0;
  for (const LinearPiece& piece : first.pieces) n += piece.w->n;
  const bool gathers = first.gather != nullptr;
  auto found = std::find_if(linear_.begin(), linear_.end(), [&](const LinearShapeTime& shape) {
    return shape.k == k && shape.n == n && shape.gathers == gathers;
  });
  if (found == linear_.end()) {
    const std::string name =
        (gathers ? "experts " : "linear ") + std::to_string(k) + ">" + std::to_string(n);
    found = linear_.insert(linear_.end(), {k, n, gathers, {.name = name}});
  }
  OperationTime& time = found->time;
  ++time.calls;
  time.seconds += seconds;
  for (const LinearProblem& problem : call.problems) {
    if (problem.m == 0) continue;
    for (const LinearPiece& piece : problem.pieces) {
      time.weight_bytes += static_cast<double>(piece.w->bytes.size());
      time.multiply_adds += static_cast<double>(problem.m) * static_cast<double>(piece.w->n) *
                            static_cast<double>(piece.w->k);
    }
  }
}

std::vector<OperationTime> StepProfile::take() {
  std::vector<OperationTime> out;
  const auto move_out = [&out](OperationTime& time) {
    if (time.calls == 0) return;
    out.push_back(time);
    time = {.name = std::move(time.name)};
  };
  for (OperationTime& entry : entries_) move_out(entry);
  for (LinearShapeTime& shape : linear_) move_out(shape.time);
  std::sort(out.begin(), out.end(), [](const OperationTime& a, const OperationTime& b) {
    return a.seconds > b.seconds;
  });
  return out;
}

}  // namespace coxswain::kernels
