#include "kernels/linear.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <xmmintrin.h>

#include "base/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/linear_piece.h"

namespace coxswain::kernels {
namespace {

using base::ceil_div;
using base::round_up;

// Rows that share one visit of a panel: sums of 24 KiB. A multiple of every row_tile without chunk_rows.
constexpr std::size_t kRowChunk = 96;
// Rows of a chunk where they are gathered: they are copied into the thread's own scratch, which has room for so many
// of float32. Of narrower values up to kGatherRowsMax fit, for kernels with chunk_rows.
constexpr std::size_t kGatherChunk = 64;
constexpr std::size_t kGatherRowsMax = 256;
// Tasks per thread and row chunk: enough to even out a disturbed core, few enough to read long stretches.
constexpr std::size_t kTasksPerThread = 8;
// Values below which converting activations is not worth waking a thread.
constexpr std::size_t kParallelValues = std::size_t{1} << 16;
// Of a thread: its sums, of one tile of rows and of more. What is finished together lies side by side in a row, in
// stretches that memory takes well, and sums and rows of a block share the second-level cache.
constexpr std::size_t kFewSumBytes = std::size_t{128} << 10;
constexpr std::size_t kSumBytes = std::size_t{512} << 10;
// Outputs that are finished together at most.
constexpr std::size_t kWidthMax = 256;
// Gated results, in bytes, from which they are written past the caches. Narrow stretches of many rows are what caches
// fetch and give up slowest.
constexpr std::size_t kStreamBytes = std::size_t{4} << 20;
constexpr std::size_t kLine = 64;     // bytes that memory takes at once
constexpr std::size_t kSumRows = 16;  // of tiled sums
// Of an activation as any kernel takes it.
constexpr std::size_t kValueBytesMax = sizeof(float);
constexpr std::size_t kConvertedBytesMax = 2;

// Values, then where the sums of groups start. Not a multiple of 4 KiB apart, so that rows do not meet in one set of
// the first-level cache.
constexpr std::size_t row_bytes(std::size_t k, std::size_t value_bytes) {
  return round_up<std::size_t>(k, 64) * value_bytes + 64;
}

std::size_t converted_row_bytes(std::size_t k, const LinearKernel& kernel) {
  const std::size_t starts =
      kernel.group == 0 ? 0
                        : round_up<std::size_t>(ceil_div<std::size_t>(k, kernel.group) *
                                                    starts_of_group(kernel) * sizeof(std::int32_t),
                                                64);
  return row_bytes(k, value_bytes(kernel.form)) + starts;
}

// One input in the form of one kernel.
struct Conversion {
  std::size_t input = 0;
  const LinearKernel* kernel = nullptr;
  std::byte* data = nullptr;
  std::size_t stride_bytes = 0;
  float* scales = nullptr;
};

// One piece and the tasks [first_task, ...) that it is cut into.
struct Plan {
  const LinearProblem* problem = nullptr;
  const LinearPiece* piece = nullptr;
  const LinearKernel* kernel = nullptr;
  ConvertedRows rows;  // of the whole input
  std::size_t first_task = 0;
  std::size_t n_panels = 0;
  std::size_t n_slots = 0;
  std::size_t slots_per_thread = 0;  // 0: slots are taken in order
  std::size_t chunk_rows = 0;
  bool streams = false;  // past the caches
};

// Rows that one thread has gathered last.
struct Gathered {
  const LinearProblem* problem = nullptr;
  const std::byte* from = nullptr;
  std::size_t row = 0;
};

constexpr std::size_t gather_bytes(std::size_t k) {
  return 64 + kGatherRowsMax * sizeof(float) + kGatherChunk * row_bytes(k, kValueBytesMax);
}

// Hands out 64-byte aligned parts of the scratch.
class Scratch {
 public:
  explicit Scratch(std::span<std::byte> bytes) : next_(bytes.data()), left_(bytes.size()) {}

  template <typename T>
  T* take(std::size_t n) {
    const std::size_t bytes = round_up<std::size_t>(n * sizeof(T), 64);
    assert(bytes <= left_);
    std::byte* const at = next_;
    next_ += bytes;
    left_ -= bytes;
    return reinterpret_cast<T*>(at);
  }

 private:
  std::byte* next_;
  std::size_t left_;
};

// Chunks of about the same size, of whole tiles.
std::size_t rows_of_chunk(const LinearProblem& problem, std::size_t k, const LinearKernel& kernel) {
  const bool gathers = problem.gather != nullptr;
  if (gathers && kernel.chunk_rows == 0) return kGatherChunk;
  std::size_t most = kernel.chunk_rows == 0 ? kRowChunk : kernel.chunk_rows;
  if (gathers) {
    const std::size_t fit =
        kGatherChunk * row_bytes(k, kValueBytesMax) / converted_row_bytes(k, kernel);
    most = std::min({most, kGatherRowsMax, fit / kernel.row_tile * kernel.row_tile});
    if (most == 0) return kGatherChunk;
  }
  return round_up<std::size_t>(ceil_div(problem.m, ceil_div(problem.m, most)), kernel.row_tile);
}

bool streams(const LinearPiece& piece, std::size_t m) {
  return piece.gate && m * (piece.w->n / 2) * sizeof(float) >= kStreamBytes &&
         piece.y_stride * sizeof(float) % kLine == 0 &&
         reinterpret_cast<std::uintptr_t>(piece.y) % kLine == 0;
}

// n is a multiple of 4; both are aligned to as many floats.
void stream_floats(float* to, const float* from, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
}

// A call, cut into tasks.
class Run {
 public:
  Run(ExecContext& exec, const LinearCall& call, const VectorOps& ops)
      : exec_(exec), call_(call), ops_(ops), scratch_(call.scratch) {
    for (const LinearProblem& problem : call.problems) n_pieces_ += problem.pieces.size();
    if (n_pieces_ == 1) {
      plans_ = &plan_;
      conversions_ = &conversion_;
    } else {
      plans_ = scratch_.take<Plan>(n_pieces_);
      conversions_ = scratch_.take<Conversion>(n_pieces_);
    }
    for (const LinearProblem& problem : call.problems) {
      for (const LinearPiece& piece : problem.pieces) {
        if (problem.m > 0 && piece.w->n > 0) add(problem, piece);
      }
    }
  }

  bool empty() const { return n_plans_ == 0; }

  void convert() {
    std::size_t n_rows = 0;
    std::size_t n_values = 0;
    for (std::size_t i = 0; i < n_conversions_; ++i) {
      const LinearInput& input = call_.inputs[conversions_[i].input];
      n_rows += input.m;
      n_values += input.m * input.k;
    }
    if (n_values < kParallelValues) {
      convert_rows(0, n_rows);
      return;
    }
    const std::size_t n_tasks = std::min(n_rows, exec_.n_threads() * 2);
    exec_.pool().run(n_tasks, [&](std::size_t i, std::size_t) {
      convert_rows(n_rows * i / n_tasks, n_rows * (i + 1) / n_tasks);
    });
  }

  void multiply() {
    std::size_t n_tasks = 0;
    for (std::size_t i = 0; i < n_plans_; ++i) n_tasks += split(plans_[i], n_tasks);
    sums_ = scratch_.take<std::byte>(exec_.n_threads() * kSumBytes);
    if (gathers_) {
      gathered_ = scratch_.take<Gathered>(exec_.n_threads());
      std::fill_n(gathered_, exec_.n_threads(), Gathered{});
      gather_area_ = scratch_.take<std::byte>(exec_.n_threads() * gather_bytes(k_max_));
    }
    exec_.pool().run(n_tasks, [&](std::size_t i, std::size_t worker) { task(i, worker); });
  }

 private:
  void add(const LinearProblem& problem, const LinearPiece& piece) {
    const LinearKernel& kernel = *piece.w->ops->kernel;
    assert(piece.w->k == call_.inputs[problem.input].k);
    Plan& plan = plans_[n_plans_++];
    plan = Plan{};
    plan.problem = &problem;
    plan.piece = &piece;
    plan.kernel = &kernel;
    plan.rows = converted(problem.input, kernel);
    plan.streams = streams(piece, problem.m);
    gathers_ = gathers_ || problem.gather != nullptr;
    k_max_ = std::max(k_max_, piece.w->k);
  }

  // Where the rows of an input will be in the form of this kernel.
  ConvertedRows converted(std::size_t index, const LinearKernel& kernel) {
    const LinearInput& input = call_.inputs[index];
    if (kernel.form == kActivationF32)
      return {reinterpret_cast<const std::byte*>(input.x), input.stride * sizeof(float), nullptr};
    for (std::size_t i = 0; i < n_conversions_; ++i) {
      const Conversion& c = conversions_[i];
      const bool same = c.input == index && c.kernel->convert_row == kernel.convert_row &&
                        c.kernel->k_multiple == kernel.k_multiple &&
                        c.kernel->group == kernel.group;
      if (same) return {c.data, c.stride_bytes, c.scales};
    }
    Conversion& c = conversions_[n_conversions_++];
    c = Conversion{};
    c.input = index;
    c.kernel = &kernel;
    c.stride_bytes = converted_row_bytes(input.k, kernel);
    c.scales = scratch_.take<float>(input.m);
    c.data = scratch_.take<std::byte>(input.m * c.stride_bytes);
    return {c.data, c.stride_bytes, c.scales};
  }

  // Rows [begin, end) of all conversions together.
  void convert_rows(std::size_t begin, std::size_t end) const {
    std::size_t first = 0;
    for (std::size_t i = 0; i < n_conversions_ && first < end; ++i) {
      const Conversion& c = conversions_[i];
      const LinearInput& input = call_.inputs[c.input];
      ConvertArgs args{};
      args.k = input.k;
      args.k_padded = round_up<std::size_t>(input.k, c.kernel->k_multiple);
      for (std::size_t at = std::max(begin, first); at < std::min(end, first + input.m); ++at) {
        const std::size_t row = at - first;
        std::byte* const data = c.data + row * c.stride_bytes;
        args.x = input.x + row * input.stride;
        args.values = data;
        args.scale = c.scales + row;
        args.starts = reinterpret_cast<std::int32_t*>(data + starts_at(input.k, *c.kernel));
        c.kernel->convert_row(&args);
      }
      first += input.m;
    }
  }

  // Cuts a plan into tasks; how many.
  std::size_t split(Plan& plan, std::size_t first_task) const {
    const std::size_t n_threads = exec_.n_threads();
    const std::size_t m = plan.problem->m;
    plan.first_task = first_task;
    const std::size_t n = plan.piece->w->n;
    plan.n_panels = ceil_div<std::size_t>(plan.piece->gate ? n / 2 : n, plan.kernel->panel);
    plan.chunk_rows = rows_of_chunk(*plan.problem, plan.piece->w->k, *plan.kernel);
    // Within a chunk each thread walks its own long stretch of panels, as memory and the prefetches of the next panel
    // want it, cut into pieces that another thread may take over. With several plans they share the pieces out.
    const std::size_t wanted = ceil_div<std::size_t>(kTasksPerThread, n_plans_);
    const std::size_t pieces = std::clamp<std::size_t>(plan.n_panels / n_threads, 1, wanted);
    plan.n_slots = std::min(plan.n_panels, n_threads * pieces);
    plan.slots_per_thread = plan.n_slots == n_threads * pieces ? pieces : 0;
    return plan.n_slots * ceil_div<std::size_t>(m, plan.chunk_rows);
  }

  void task(std::size_t i, std::size_t worker) {
    const Plan* plan =
        std::upper_bound(plans_,
                         plans_ + n_plans_,
                         i,
                         [](std::size_t task, const Plan& p) { return task < p.first_task; }) -
        1;
    // Its rows stay near while panels pass by.
    const std::size_t chunk = (i - plan->first_task) / plan->n_slots;
    const std::size_t in_chunk = (i - plan->first_task) % plan->n_slots;
    const std::size_t n_threads = exec_.n_threads();
    const std::size_t slot =
        plan->slots_per_thread == 0
            ? in_chunk
            : in_chunk % n_threads * plan->slots_per_thread + in_chunk / n_threads;
    const std::size_t row = chunk * plan->chunk_rows;
    compute(*plan,
            plan->n_panels * slot / plan->n_slots,
            plan->n_panels * (slot + 1) / plan->n_slots,
            row,
            std::min(plan->chunk_rows, plan->problem->m - row),
            worker);
  }

  // Rows [row, row + n_rows) of the problem times panels [begin, end).
  void compute(const Plan& plan,
               std::size_t begin,
               std::size_t end,
               std::size_t row,
               std::size_t n_rows,
               std::size_t worker) {
    const LinearKernel& kernel = *plan.kernel;
    const bool few = kernel.few_rows != 0 && plan.problem->m <= kernel.few_rows;
    const PieceRows piece(kernel, *plan.piece, few);
    ConvertedRows rows = plan.rows;
    if (plan.problem->gather != nullptr) {
      rows = gather(plan, row, n_rows, worker);
    } else {
      const std::size_t first = plan.problem->first + row;
      rows.data += first * rows.stride_bytes;
      if (rows.scales != nullptr) rows.scales += first;
    }
    const std::size_t sum_bytes =
        round_up<std::size_t>(n_rows, kSumRows) * kernel.panel * sizeof(float);
    const PieceRows::Sums sums{rows, n_rows, sums_ + worker * kSumBytes, sum_bytes};
    const std::size_t up = plan.piece->gate ? plan.n_panels : 0;
    const std::size_t n_at_once = panels_at_once(kernel, sums, up == 0 ? 1 : 2);
    float* const y = plan.piece->y + row * plan.piece->y_stride;
    for (std::size_t first = begin; first < end; first += n_at_once) {
      const Group group{{first, std::min(n_at_once, end - first), up}, sums, y};
      piece.multiply(group.panels, sums);
      put(plan, piece, group);
    }
    if (plan.streams) _mm_sfence();  // whoever sees that the task is done sees its results
  }

  // One tile of rows reads as many panels as there is room for before its results: long stretches of weights.
  static std::size_t panels_at_once(const LinearKernel& kernel,
                                    const PieceRows::Sums& sums,
                                    std::size_t n_factors) {
    const std::size_t few_rows = kernel.chunk != nullptr ? kSumRows : kernel.row_tile;
    if (sums.n_rows <= std::min(few_rows, kSumRows)) return kFewSumBytes / sums.acc_stride;
    if (kernel.chunk_rows == 0) return 1;
    return std::min(kSumBytes / (n_factors * sums.acc_stride), kWidthMax / kernel.panel);
  }

  // Panels whose sums are there, and where the results of their rows go.
  struct Group {
    Panels panels;
    PieceRows::Sums sums;
    float* y;
  };

  // Results of a group, a few rows at a time: stretches of a row are written side by side.
  void put(const Plan& plan, const PieceRows& piece, const Group& group) {
    const std::size_t width = plan.kernel->panel;
    const std::size_t n_at_once = kWidthMax / width;
    const PieceRows::Sums& all = group.sums;
    const std::size_t part_rows = group.panels.size() == 1 ? all.n_rows : kSumRows;
    for (std::size_t row = 0; row < all.n_rows; row += part_rows) {
      ConvertedRows rows;
      if (all.rows.scales != nullptr) rows.scales = all.rows.scales + row;
      const Group part{group.panels,
                       {rows,
                        std::min(part_rows, all.n_rows - row),
                        all.acc + row * width * sizeof(float),
                        all.acc_stride},
                       group.y + row * plan.piece->y_stride};
      for (std::size_t i = 0; i < group.panels.each; i += n_at_once) {
        const std::size_t end = std::min(i + n_at_once, group.panels.each);
        if (plan.piece->gate && !piece.finishes_gates()) {
          put_gated(plan, piece, part, i, end);
        } else {
          put_panels(plan, piece, part, i, end);
        }
      }
    }
  }

  // Of the panels [begin, end) of a group.
  void put_panels(const Plan& plan,
                  const PieceRows& piece,
                  const Group& group,
                  std::size_t begin,
                  std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      float* const y = group.y + group.panels[i] * plan.kernel->panel;
      const PieceRows::Place to{y, plan.piece->y_stride, call_.accumulate};
      if (plan.piece->gate) {
        piece.finish_gate(group.panels, group.sums, i, to, plan.streams);
      } else {
        piece.finish(group.panels[i], group.sums, i, to);
      }
    }
  }

  // activation(gate) * up of kernels that finish no gates.
  void put_gated(const Plan& plan,
                 const PieceRows& piece,
                 const Group& group,
                 std::size_t begin,
                 std::size_t end) {
    alignas(64) float gate[kSumRows * kWidthMax];
    alignas(64) float up[kSumRows * kWidthMax];
    const Panels& panels = group.panels;
    const std::size_t width = plan.kernel->panel;
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t at = (i - begin) * width;
      const std::size_t beside = panels.each + i;
      piece.finish(panels[i], group.sums, i, {gate + at, kWidthMax});
      piece.finish(panels[beside], group.sums, beside, {up + at, kWidthMax});
    }
    const auto kind = static_cast<ActivationKind>(*plan.piece->gate);
    const std::size_t n = (end - begin) * width;
    for (std::size_t r = 0; r < group.sums.n_rows; ++r) {
      float* const factor = gate + r * kWidthMax;
      float* const y = group.y + r * plan.piece->y_stride + panels[begin] * width;
      ops_.activation(kind, factor, up + r * kWidthMax, plan.streams ? factor : y, n);
      if (plan.streams) stream_floats(y, factor, n);
    }
  }

  // Copies of the chosen rows, side by side; kept for the next task of the thread.
  ConvertedRows gather(const Plan& plan, std::size_t row, std::size_t n_rows, std::size_t worker) {
    std::byte* const area = gather_area_ + worker * gather_bytes(k_max_);
    auto* const scales = reinterpret_cast<float*>(area);
    std::byte* const data = area + kGatherRowsMax * sizeof(float);
    const std::size_t k = plan.piece->w->k;
    const std::size_t stride = converted_row_bytes(k, *plan.kernel);
    Gathered& last = gathered_[worker];
    if (last.problem != plan.problem || last.from != plan.rows.data || last.row != row) {
      const std::size_t copied = plan.rows.scales == nullptr && plan.kernel->form == kActivationF32
                                     ? k * sizeof(float)
                                     : stride;
      for (std::size_t i = 0; i < n_rows; ++i) {
        const std::size_t from = plan.problem->gather[row + i];
        std::memcpy(data + i * stride, plan.rows.data + from * plan.rows.stride_bytes, copied);
        if (plan.rows.scales != nullptr) scales[i] = plan.rows.scales[from];
      }
      last = {plan.problem, plan.rows.data, row};
    }
    return {data, stride, plan.rows.scales != nullptr ? scales : nullptr};
  }

  ExecContext& exec_;
  const LinearCall& call_;
  const VectorOps& ops_;
  Scratch scratch_;
  Plan plan_;
  Conversion conversion_;
  Plan* plans_ = nullptr;
  Conversion* conversions_ = nullptr;
  std::size_t n_pieces_ = 0;
  std::size_t n_plans_ = 0;
  std::size_t n_conversions_ = 0;
  std::size_t k_max_ = 0;
  bool gathers_ = false;
  std::byte* sums_ = nullptr;
  Gathered* gathered_ = nullptr;
  std::byte* gather_area_ = nullptr;
};

}  // namespace

std::size_t linear_scratch_bytes(const LinearShape& shape) {
  const std::size_t forms = shape.n_forms;
  std::size_t bytes =
      forms * (round_up<std::size_t>(shape.rows * sizeof(float), 64) + 128 * shape.n_pieces +
               shape.rows * row_bytes(shape.k, kConvertedBytesMax)) +
      shape.n_threads * kSumBytes;
  if (shape.n_pieces > 1)
    bytes += round_up<std::size_t>(shape.n_pieces * sizeof(Plan), 64) +
             round_up<std::size_t>(shape.n_pieces * sizeof(Conversion), 64);
  if (shape.gathers)
    bytes += round_up<std::size_t>(shape.n_threads * sizeof(Gathered), 64) +
             shape.n_threads * round_up<std::size_t>(gather_bytes(shape.k), 64);
  return round_up<std::size_t>(bytes, 64);
}

bool can_gate(const MatrixImage& w) {
  return w.n % (std::size_t{2} * w.ops->kernel->panel) == 0;
}

void run_linear(ExecContext& exec, const LinearCall& call, const VectorOps& ops) {
  Run run(exec, call, ops);
  if (run.empty()) return;
  run.convert();
  run.multiply();
}

}  // namespace coxswain::kernels
