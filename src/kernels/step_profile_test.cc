#include "kernels/step_profile.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using testing::random_floats;
using ::testing::UnorderedElementsAre;

MatrixImage image_of(const KernelTable& table, std::size_t n, std::size_t k) {
  const std::vector<float> weights = random_floats(n * k, 1);
  const DenseRows rows{reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, n};
  return pack_matrix(table.ops(formats::kInt8), k, {&rows, 1}).value();
}

std::vector<float> product(const KernelTable& table,
                           ExecContext& exec,
                           const MatrixImage& w,
                           std::size_t m) {
  const std::vector<float> x = random_floats(m * w.k, 2);
  std::vector<float> y(m * w.n);
  testing::run_linear(table, exec, {x.data(), w.k, m, w.k}, {&w, y.data(), w.n});
  return y;
}

TEST(StepProfile, ComputesWhatItWraps) {
  for (const KernelTable* table : testing::runnable_tables()) {
    StepProfile profile(*table);
    ExecContext plain(2);
    ExecContext timed(2);
    timed.set_profile(&profile);
    const MatrixImage w = image_of(*table, 48, 100);
    EXPECT_EQ(product(profile.kernels(), timed, w, 3), product(*table, plain, w, 3)) << table->id;
  }
}

TEST(StepProfile, TellsLinearLayersApartByShape) {
  const KernelTable& table = testing::scalar_table();
  StepProfile profile(table);
  ExecContext exec(1);
  exec.set_profile(&profile);
  const MatrixImage small = image_of(table, 16, 32);
  const MatrixImage wide = image_of(table, 64, 32);
  product(profile.kernels(), exec, small, 1);
  product(profile.kernels(), exec, small, 5);
  product(profile.kernels(), exec, wide, 2);

  const auto times = profile.take();
  const auto linear = [](const char* name, std::uint64_t calls, const MatrixImage& w, double rows) {
    return ::testing::AllOf(
        Field(&OperationTime::name, name),
        Field(&OperationTime::calls, calls),
        Field(&OperationTime::seconds, ::testing::Gt(0.0)),
        Field(&OperationTime::weight_bytes, static_cast<double>(calls * w.bytes.size())),
        Field(&OperationTime::multiply_adds, rows * static_cast<double>(w.n * w.k)));
  };
  EXPECT_THAT(times,
              UnorderedElementsAre(linear("linear 32>16", 2, small, 6),
                                   linear("linear 32>64", 1, wide, 2)));
  EXPECT_GE(times[0].seconds, times[1].seconds);
  EXPECT_THAT(profile.take(), IsEmpty());
}

TEST(StepProfile, CountsEveryOtherEntryUnderItsName) {
  const KernelTable& table = testing::scalar_table();
  StepProfile profile(table);
  ExecContext exec(1);
  exec.set_profile(&profile);
  std::vector<float> y(8, 1.0F);
  const std::vector<float> a(8, 2.0F);
  profile.kernels().add(exec, {.a = a.data(), .y = y.data(), .m = 1, .n = 8});
  EXPECT_EQ(y, std::vector<float>(8, 3.0F));
  EXPECT_THAT(profile.take(), ElementsAre(Field(&OperationTime::name, "add")));
}

}  // namespace
}  // namespace coxswain::kernels
