// The loader on weights that are stored quantised.

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "kernels/kernel_table.h"
#include "model/weight_loader.h"
#include "weights/stored_quant.h"

namespace coxswain::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// m.weight e4m3 [2, 3]: 1 2 4 / 8 16 -1, with one scale for each output.
class StoredWeights : public testing::Test {
 protected:
  Result<weights::Checkpoint> checkpoint(std::array<float, 2> scales) const {
    const std::string header =
        R"({"m.weight":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[0,6]},)"
        R"("m.weight_scale":{"dtype":"F32","shape":[2],"data_offsets":[6,14]}})";
    const std::uint64_t length = header.size();
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    bytes += header + "\x38\x40\x48\x50\x58\xb8";
    bytes.append(reinterpret_cast<const char*>(scales.data()), sizeof(scales));
    folder_.write("model.safetensors", bytes);
    COXSWAIN_ASSIGN_OR_RETURN(weights::Checkpoint out, weights::Checkpoint::open(folder_.path()));
    weights::StoredQuant quant;
    quant.method = weights::StoredMethod::kFp8;
    COXSWAIN_RETURN_IF_ERROR(weights::derive_tensors(quant, out));
    return out;
  }

  static MatrixMap map(bool transposed) {
    Rows rows;
    rows.tensor = "m.weight";
    rows.shape = {2, 3};
    if (transposed) std::swap(rows.shape[0], rows.shape[1]);
    rows.transposed = transposed;
    rows.count = 2;
    return {{rows}, 3};
  }

  const base::TempFolder folder_;
  const std::vector<std::string> prefixes_{""};
  const kernels::KernelTable* table_ = kernels::select_kernels("scalar").value();
  const kernels::WeightFormat& format_ = kernels::plain_format(tensor::DType::kF32);
};

TEST_F(StoredWeights, AreRowsOfTheirOutputsWhateverTheFamilyStores) {
  const auto stored = checkpoint({0.5F, 2.0F});
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  for (const bool transposed : {false, true}) {
    WeightLoader loader(*stored, prefixes_, *table_, {});
    const auto linear = loader.linear(map(transposed), format_);
    ASSERT_TRUE(linear.ok()) << linear.status().message();
    const kernels::MatrixImage& image = linear->pieces.front();
    std::vector<float> row(3);
    image.ops->unpack_row(image, 0, row.data());
    EXPECT_THAT(row, ElementsAre(0.5F, 1.0F, 2.0F));
    image.ops->unpack_row(image, 1, row.data());
    EXPECT_THAT(row, ElementsAre(16.0F, 32.0F, -2.0F));
  }
}

TEST_F(StoredWeights, ScalesAreInTheFingerprintAndCountAsRead) {
  std::vector<std::uint64_t> fingerprints;
  for (const float scale : {2.0F, 4.0F, 2.0F}) {
    const auto stored = checkpoint({0.5F, scale});
    ASSERT_TRUE(stored.ok()) << stored.status().message();
    WeightLoader loader(*stored, prefixes_, *table_, {});
    EXPECT_THAT(loader.unread(), ElementsAre("m.weight_scale"));
    ASSERT_TRUE(loader.linear(map(false), format_).ok());
    EXPECT_THAT(loader.unread(), IsEmpty());
    fingerprints.push_back(loader.fingerprint());
  }
  EXPECT_NE(fingerprints[0], fingerprints[1]);
  EXPECT_EQ(fingerprints[0], fingerprints[2]);
}

TEST_F(StoredWeights, AreRefusedByNameWhereTheyAreNotFinite) {
  for (const float scale : {std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::max()}) {
    const auto stored = checkpoint({0.5F, scale});
    ASSERT_TRUE(stored.ok()) << stored.status().message();
    WeightLoader loader(*stored, prefixes_, *table_, {});
    const Status status = loader.linear(map(false), format_).status();
    EXPECT_THAT(status.message(),
                HasSubstr("tensor \"m.weight\" has scales or values that are not"));
  }
}

TEST_F(StoredWeights, HaveTheShapeThatTheConfigAsksFor) {
  const auto stored = checkpoint({1.0F, 1.0F});
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  WeightLoader loader(*stored, prefixes_, *table_, {});
  MatrixMap other = map(false);
  other.rows.front().shape = {3, 2};
  EXPECT_THAT(loader.linear(other, format_).status().message(),
              HasSubstr("tensor \"m.weight\" has shape [2, 3], the config asks for [3, 2]"));
}

}  // namespace
}  // namespace coxswain::model
