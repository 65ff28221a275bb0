// Calls of several problems: each gives the bits of a call of its own.

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

using testing::random_floats;
using testing::runnable_tables;

MatrixImage image_of(const KernelTable& table,
                     const WeightFormat& format,
                     std::size_t n,
                     std::size_t k,
                     std::uint32_t seed) {
  const std::vector<float> weights = random_floats(n * k, seed);
  const DenseRows rows{reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, n};
  return pack_matrix(table.ops(format), k, {&rows, 1}).value();
}

// Rows `from` of x, one after the other, times one image.
std::vector<float> alone(const KernelTable& table,
                         const MatrixImage& w,
                         const std::vector<float>& x,
                         const std::vector<std::uint32_t>& from) {
  ExecContext exec(1);
  std::vector<float> y;
  for (const std::uint32_t row : from) {
    std::vector<float> one(w.n);
    testing::run_linear(table, exec, {x.data() + row * w.k, w.k, 1, w.k}, {&w, one.data(), w.n});
    y.insert(y.end(), one.begin(), one.end());
  }
  return y;
}

std::vector<std::uint32_t> all_rows(std::size_t m) {
  std::vector<std::uint32_t> out(m);
  std::iota(out.begin(), out.end(), 0U);
  return out;
}

// Whether a piece's outputs are `want` and its bias.
bool holds(const LinearPiece& piece, const std::vector<float>& want) {
  const std::size_t n = piece.w->n;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const float expected = piece.bias != nullptr ? want[i] + piece.bias[i % n] : want[i];
    if (piece.y[i / n * piece.y_stride + i % n] != expected) return false;
  }
  return true;
}

// q, k and v in formats of their own, side by side, with a bias on one.
TEST(LinearCall, PiecesOfDifferentFormatsWriteSideBySide) {
  const std::size_t k = 172;
  for (const KernelTable* table : runnable_tables()) {
    for (const std::size_t m : {1U, 7U, 130U, 700U}) {
      const std::vector<float> x = random_floats(m * k, 1);
      std::vector<MatrixImage> images;
      for (const WeightFormat* format : weight_formats())
        images.push_back(image_of(*table, *format, 40 + 33 * images.size(), k, 2));
      const std::vector<float> bias = random_floats(images[2].n, 3);
      std::size_t width = 0;
      for (const MatrixImage& image : images) width += image.n;
      std::vector<float> y(m * width);
      std::vector<LinearPiece> pieces;
      std::size_t at = 0;
      for (const MatrixImage& image : images) {
        pieces.push_back(
            {&image, y.data() + at, width, pieces.size() == 2 ? bias.data() : nullptr});
        at += image.n;
      }
      const LinearInput input{x.data(), k, m, k};
      const LinearProblem problem{.m = m, .pieces = pieces};
      ExecContext exec(3);
      auto scratch = testing::scratch_of(linear_scratch_bytes({.rows = m,
                                                               .k = k,
                                                               .n_pieces = pieces.size(),
                                                               .n_forms = pieces.size(),
                                                               .n_threads = 3}));
      table->linear(exec,
                    {.inputs = {&input, 1}, .problems = {&problem, 1}, .scratch = scratch.bytes()});
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const std::vector<float> want = alone(*table, images[i], x, all_rows(m));
        EXPECT_TRUE(holds(pieces[i], want)) << table->id << " " << i << " m " << m;
      }
    }
  }
}

// Experts: rows are gathered for some, stand in order for others, and some have none.
TEST(LinearCall, ProblemsGatherTheirRows) {
  const std::size_t k = 160;
  const std::size_t n = 77;
  for (const KernelTable* table : runnable_tables()) {
    for (const WeightFormat* format : weight_formats()) {
      const std::size_t m = 400;  // more than a chunk of gathered rows
      const std::vector<float> x = random_floats(m * k, 1);
      std::vector<MatrixImage> images;
      for (std::uint32_t e = 0; e < 5; ++e)
        images.push_back(image_of(*table, *format, n, k, 10 + e));
      std::vector<std::vector<std::uint32_t>> rows(5);
      for (std::uint32_t i = 0; i < m; ++i) {
        rows[0].push_back(m - 1 - i);
        if (i % 3 == 0) rows[1].push_back(i);
      }
      rows[3] = {7, 7, 399};
      rows[4] = all_rows(m);
      std::vector<std::vector<float>> y;
      y.reserve(rows.size());
      for (const auto& of : rows) y.emplace_back(of.size() * n);
      std::vector<LinearPiece> pieces;
      for (std::size_t e = 0; e < 5; ++e) pieces.push_back({&images[e], y[e].data(), n});
      std::vector<LinearProblem> problems;
      for (std::size_t e = 0; e < 5; ++e) {
        problems.push_back({.m = rows[e].size(),
                            .gather = e == 4 ? nullptr : rows[e].data(),
                            .pieces = {&pieces[e], 1}});
      }
      problems.push_back({.first = 100, .m = 20});  // no pieces: nothing to do
      const LinearInput input{x.data(), k, m, k};
      for (const std::size_t n_threads : {1U, 2U, 3U}) {
        ExecContext exec(n_threads);
        auto scratch = testing::scratch_of(linear_scratch_bytes(
            {.rows = m, .k = k, .n_pieces = 5, .n_threads = n_threads, .gathers = true}));
        for (auto& each : y) std::fill(each.begin(), each.end(), -1.0F);
        table->linear(exec,
                      {.inputs = {&input, 1}, .problems = problems, .scratch = scratch.bytes()});
        for (std::size_t e = 0; e < 5; ++e)
          ASSERT_EQ(y[e], alone(*table, images[e], x, rows[e]))
              << table->id << " " << format->name << " " << e;
      }
    }
  }
}

// The way back: every expert has its own stretch of the rows of one input, and inputs may differ in width.
TEST(LinearCall, ProblemsTakeStretchesOfSeveralInputs) {
  for (const KernelTable* table : runnable_tables()) {
    const std::vector<float> a = random_floats(9 * 64, 1);
    const std::vector<float> b = random_floats(4 * 300, 2);
    const MatrixImage first = image_of(*table, formats::kInt4, 65, 64, 3);
    const MatrixImage second = image_of(*table, formats::kInt8, 20, 64, 4);
    const MatrixImage third = image_of(*table, formats::kBfloat16, 130, 300, 5);
    std::vector<float> y1(3 * 65);
    std::vector<float> y2(6 * 20);
    std::vector<float> y3(4 * 130);
    const LinearPiece pieces[] = {
        {&first, y1.data(), 65}, {&second, y2.data(), 20}, {&third, y3.data(), 130}};
    const LinearInput inputs[] = {{a.data(), 64, 9, 64}, {b.data(), 300, 4, 300}};
    const LinearProblem problems[] = {{.m = 3, .pieces = {&pieces[0], 1}},
                                      {.first = 3, .m = 6, .pieces = {&pieces[1], 1}},
                                      {.input = 1, .m = 4, .pieces = {&pieces[2], 1}}};
    ExecContext exec(2);
    auto scratch = testing::scratch_of(
        linear_scratch_bytes({.rows = 13, .k = 300, .n_pieces = 3, .n_forms = 2, .n_threads = 2}));
    table->linear(exec, {.inputs = inputs, .problems = problems, .scratch = scratch.bytes()});
    EXPECT_EQ(y1, alone(*table, first, a, {0, 1, 2}));
    EXPECT_EQ(y2, alone(*table, second, a, {3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(y3, alone(*table, third, b, {0, 1, 2, 3}));
  }
}

// One call of one piece.
void call(const KernelTable& table,
          std::size_t n_threads,
          const std::vector<float>& x,
          const LinearPiece& piece) {
  const std::size_t k = piece.w->k;
  const std::size_t m = x.size() / k;
  ExecContext exec(n_threads);
  testing::run_linear(table, exec, {x.data(), k, m, k}, piece);
}

// The activation of the left half of each row of `both`, times the right half: [m, width].
std::vector<float> activated(const KernelTable& table,
                             Activation kind,
                             std::vector<float> both,
                             std::size_t width) {
  const std::size_t m = both.size() / (2 * width);
  ExecContext exec(1);
  ActivationArgs args;
  args.gate = args.y = both.data();
  args.up = both.data() + width;
  args.gate_stride = args.up_stride = args.y_stride = 2 * width;
  args.m = m;
  args.n = width;
  args.activation = kind;
  table.activation(exec, args);
  std::vector<float> out;
  for (std::size_t row = 0; row < m; ++row) {
    const auto from = both.begin() + static_cast<std::ptrdiff_t>(row * 2 * width);
    out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(width));
  }
  return out;
}

void expect_gated(const KernelTable& table,
                  const WeightFormat& format,
                  Activation kind,
                  std::size_t m) {
  const std::size_t width = 256;
  const std::size_t k = 64;
  const std::vector<float> bias = random_floats(2 * width, 3);
  const MatrixImage w = image_of(table, format, 2 * width, k, 2);
  ASSERT_TRUE(can_gate(w));
  const std::vector<float> x = random_floats(m * k, 1);
  std::vector<float> both(m * 2 * width);
  call(table, 1, x, {&w, both.data(), 2 * width, bias.data()});
  // Whole lines, as results that go past the caches must be.
  auto got = testing::scratch_of(m * width * sizeof(float));
  auto* const y = reinterpret_cast<float*>(got.bytes().data());
  call(table, 3, x, {&w, y, width, bias.data(), kind});
  EXPECT_TRUE(std::vector<float>(y, y + m * width) ==
              activated(table, kind, std::move(both), width))
      << table.id << " " << format.name << " m " << m << " activation " << static_cast<int>(kind);
}

// Few rows, whole tiles and parts of them, several chunks, and so many that results go past the caches.
TEST(LinearCall, AGatedPieceIsTheActivationOfItsHalves) {
  for (const KernelTable* table : runnable_tables()) {
    for (const WeightFormat* format : weight_formats()) {
      for (const std::size_t m : {1U, 7U, 33U, 130U})
        expect_gated(*table, *format, Activation::kGeluTanh, m);
    }
    for (const WeightFormat* format : {&formats::kInt8, &formats::kBfloat16, &formats::kInt4}) {
      expect_gated(*table, *format, Activation::kSilu, 4100);
      for (const Activation kind : {Activation::kSilu,
                                    Activation::kGeluErf,
                                    Activation::kRelu,
                                    Activation::kReluSquared,
                                    Activation::kGeluQuick})
        expect_gated(*table, *format, kind, 33);
    }
  }
}

TEST(LinearCall, HalvesThatEndWithinAPanelAreNoFactors) {
  for (const KernelTable* table : runnable_tables())
    EXPECT_FALSE(can_gate(image_of(*table, formats::kBfloat16, 2 * 100, 64, 2))) << table->id;
}

}  // namespace
}  // namespace coxswain::kernels
