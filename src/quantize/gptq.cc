#include "quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/aligned_buffer.h"

namespace coxswain::quantize {
namespace {

// Rows that go through the inputs together, so that each row of the factor is read once for all of them.
constexpr std::uint64_t kRowsTogether = 16;
// Rows of inputs that are multiplied at once.
constexpr std::size_t kMomentRows = 512;

using Matrix = std::vector<double>;  // [k, k]

double dot(const double* a, const double* b, std::uint64_t n) {
  double sums[4] = {};
  std::uint64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::uint64_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// A = R R^T with R upper triangular, in place. False if A is not positive.
bool factor(Matrix& a, std::uint64_t k, base::ThreadPool& pool) {
  for (std::uint64_t j = k; j-- > 0;) {
    const double* const row_j = a.data() + j * k;
    const std::uint64_t behind = k - j - 1;
    const double pivot = row_j[j] - dot(row_j + j + 1, row_j + j + 1, behind);
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    const double root = std::sqrt(pivot);
    a[j * k + j] = root;
    constexpr std::uint64_t kSlice = 64;
    pool.run((j + kSlice - 1) / kSlice, [&](std::size_t slice, std::size_t) {
      for (std::uint64_t i = slice * kSlice; i < std::min(j, (slice + 1) * kSlice); ++i) {
        double* const row_i = a.data() + i * k;
        row_i[j] = (row_i[j] - dot(row_i + j + 1, row_j + j + 1, behind)) / root;
      }
    });
  }
  return true;
}

// The inverse of an upper triangular matrix, as floats: the inverse of A is its transpose times itself.
std::vector<float> inverse_of_upper(const Matrix& r, std::uint64_t k, base::ThreadPool& pool) {
  std::vector<float> out(k * k);
  pool.run(k, [&](std::size_t i, std::size_t) {
    std::vector<double> row(k);
    row[i] = 1.0;
    for (std::uint64_t t = i; t < k; ++t) {
      const double value = row[t] / r[t * k + t];
      out[i * k + t] = static_cast<float>(value);
      for (std::uint64_t j = t + 1; j < k; ++j) row[j] -= value * r[t * k + j];
    }
  });
  return out;
}

// Inputs in the order in which they are rounded.
std::vector<std::uint64_t> order_of(const InputMoments& moments, bool act_order) {
  std::vector<std::uint64_t> out(moments.k());
  std::iota(out.begin(), out.end(), std::uint64_t{0});
  if (act_order) {
    std::ranges::stable_sort(out, [&](std::uint64_t a, std::uint64_t b) {
      return moments.product(a, a) > moments.product(b, b);
    });
  }
  return out;
}

// Damped and in order. An input that was always 0 gets a second moment of its own.
Matrix damped(const InputMoments& moments,
              const std::vector<std::uint64_t>& order,
              double percdamp) {
  const std::uint64_t k = moments.k();
  double trace = 0;
  for (std::uint64_t i = 0; i < k; ++i) trace += moments.product(i, i);
  const double mean = trace > 0 ? trace / static_cast<double>(k) : 1.0;
  Matrix out(k * k);
  for (std::uint64_t i = 0; i < k; ++i) {
    for (std::uint64_t j = 0; j < k; ++j) out[i * k + j] = moments.product(order[i], order[j]);
    if (out[i * k + i] == 0) out[i * k + i] = mean;
    out[i * k + i] += percdamp * mean;
  }
  return out;
}

class Solver {
 public:
  Solver(const Weights& weights,
         const std::vector<std::uint64_t>& order,
         const std::vector<float>& inverse,
         bool static_groups,
         QuantisedMatrix& out)
      : weights_(weights),
        order_(order),
        inverse_(inverse),
        static_groups_(static_groups),
        out_(out) {}

  // Rows [first, first + n), n at most kRowsTogether.
  void run(std::uint64_t first, std::uint64_t n) const {
    const std::uint64_t k = out_.k;
    std::vector<float> w(k * kRowsTogether);  // [k, rows], in order
    for (std::uint64_t i = 0; i < k; ++i) {
      for (std::uint64_t r = 0; r < n; ++r)
        w[i * kRowsTogether + r] = weights_.row(first + r)[order_[i]];
    }
    const std::uint64_t width = out_.group_size == 0 ? k : out_.group_size;
    if (static_groups_) {
      for (std::uint64_t r = 0; r < n; ++r) round_row(weights_.row(first + r), first + r, out_);
    }
    for (std::uint64_t i = 0; i < k; ++i) {
      if (!static_groups_ && i % width == 0) choose_scales(w, i, std::min(width, k - i), first, n);
      float errors[kRowsTogether] = {};
      const float* const factors = inverse_.data() + i * k;
      const std::uint32_t group = out_.groups[order_[i]];
      for (std::uint64_t r = 0; r < n; ++r) {
        const float scale = out_.scale(first + r, group);
        const float value = w[i * kRowsTogether + r];
        const std::uint8_t code = code_of(out_.kind, value, scale);
        out_.codes[(first + r) * k + order_[i]] = code;
        errors[r] = (value - value_of(out_.kind, code, scale)) / factors[i];
      }
      for (std::uint64_t j = i + 1; j < k; ++j) {
        float* const row = w.data() + j * kRowsTogether;
        for (std::uint64_t r = 0; r < kRowsTogether; ++r) row[r] -= errors[r] * factors[j];
      }
    }
  }

 private:
  // Of inputs [i, i + width), as what came before has left them.
  void choose_scales(const std::vector<float>& w,
                     std::uint64_t i,
                     std::uint64_t width,
                     std::uint64_t first,
                     std::uint64_t n) const {
    std::vector<float> values(width);
    std::vector<float> importance(width);
    for (std::uint64_t j = 0; j < width; ++j) {
      const float factor = inverse_[(i + j) * out_.k + i + j];
      importance[j] = 1.0F / (factor * factor);
    }
    for (std::uint64_t r = 0; r < n; ++r) {
      for (std::uint64_t j = 0; j < width; ++j) values[j] = w[(i + j) * kRowsTogether + r];
      out_.scale(first + r, out_.group_size == 0 ? 0 : i / out_.group_size) =
          choose_scale(out_.kind, values, importance);
    }
  }

  const Weights& weights_;
  const std::vector<std::uint64_t>& order_;
  const std::vector<float>& inverse_;
  bool static_groups_;
  QuantisedMatrix& out_;
};

}  // namespace

Status InputMoments::add(const float* x,
                         std::size_t stride,
                         std::size_t m,
                         const kernels::KernelTable& table,
                         kernels::ExecContext& exec) {
  const kernels::LinearOps& ops = table.ops(kernels::formats::kFloat32);
  COXSWAIN_ASSIGN_OR_RETURN(tensor::AlignedBuffer scratch,
                            tensor::AlignedBuffer::allocate(kernels::linear_scratch_bytes(
                                {.rows = k_, .k = kMomentRows, .n_threads = exec.n_threads()})));
  std::vector<float> turned;  // [k, rows of this time]
  for (std::size_t first = 0; first < m; first += kMomentRows) {
    const std::size_t rows = std::min(kMomentRows, m - first);
    turned.assign(k_ * rows, 0.0F);
    for (std::size_t t = 0; t < rows; ++t) {
      const float* const row = x + (first + t) * stride;
      for (std::uint64_t i = 0; i < k_; ++i) {
        turned[i * rows + t] = row[i];
        magnitudes_[i] += std::abs(static_cast<double>(row[i]));
      }
    }
    COXSWAIN_ASSIGN_OR_RETURN(kernels::MatrixImage image, kernels::make_image(ops, k_, rows));
    ops.pack(
        image, 0, {reinterpret_cast<const std::byte*>(turned.data()), tensor::DType::kF32, k_});
    const kernels::LinearPiece piece{&image, products_.data(), k_, nullptr};
    const kernels::LinearInput input{turned.data(), rows, k_, rows};
    const kernels::LinearProblem problem{.m = k_, .pieces = {&piece, 1}};
    table.linear(exec,
                 {.inputs = {&input, 1},
                  .problems = {&problem, 1},
                  .accumulate = true,
                  .scratch = scratch.bytes()});
  }
  n_rows_ += m;
  return {};
}

double InputMoments::error_of(std::span<const float> w) const {
  double out = 0;
  for (std::uint64_t i = 0; i < k_; ++i) {
    float sums[8] = {};
    const float* const row = products_.data() + i * k_;
    std::uint64_t j = 0;
    for (; j + 8 <= k_; j += 8) {
      for (std::uint64_t t = 0; t < 8; ++t) sums[t] += row[j + t] * w[j + t];
    }
    double sum = 0;
    for (; j < k_; ++j) sum += static_cast<double>(row[j]) * w[j];
    for (const float part : sums) sum += part;
    out += sum * w[i];
  }
  return out;
}

Result<QuantisedMatrix> gptq(Weights weights,
                             const InputMoments& moments,
                             const GptqOptions& options,
                             kernels::ExecContext& exec) {
  const std::uint64_t k = weights.k;
  // What is never multiplied by anything but 0 is best 0.
  for (std::uint64_t i = 0; i < k; ++i) {
    if (moments.product(i, i) != 0.0F) continue;
    for (std::uint64_t r = 0; r < weights.n; ++r) weights.row(r)[i] = 0.0F;
  }
  const std::vector<std::uint64_t> order = order_of(moments, options.act_order);
  Matrix matrix = damped(moments, order, options.percdamp);
  if (!factor(matrix, k, exec.pool()))
    return invalid_argument(
        "the second moments of its inputs cannot be factored; raise --percdamp, or give more "
        "calibration text");
  const std::vector<float> inverse = inverse_of_upper(matrix, k, exec.pool());
  Matrix().swap(matrix);

  QuantisedMatrix out = QuantisedMatrix::of(options.kind, weights.n, k, options.group_size);
  if (out.group_size != 0 && !options.static_groups) {
    for (std::uint64_t i = 0; i < k; ++i)
      out.groups[order[i]] = static_cast<std::uint32_t>(i / out.group_size);
  }
  const Solver solver(weights, order, inverse, options.static_groups, out);
  exec.pool().run((weights.n + kRowsTogether - 1) / kRowsTogether,
                  [&](std::size_t tile, std::size_t) {
                    const std::uint64_t first = tile * kRowsTogether;
                    solver.run(first, std::min(kRowsTogether, weights.n - first));
                  });
  return out;
}

}  // namespace coxswain::quantize
