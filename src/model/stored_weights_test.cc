// The loader on weights that are stored quantised.

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
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
    EXPECT_THAT(loader.reader().unread(), ElementsAre("m.weight_scale"));
    ASSERT_TRUE(loader.linear(map(false), format_).ok());
    EXPECT_THAT(loader.reader().unread(), IsEmpty());
    fingerprints.push_back(loader.reader().fingerprint());
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

// GPTQ modules a and b: 8 outputs, 64 inputs in two groups; zero points: 8 in a, others in b. c is float16; d is as a,
// but inputs are in the groups by turns.
class StoredCodes : public testing::Test {
 protected:
  static constexpr int kInputs = 64;

  StoredCodes() {
    for (const char* const module : {"a", "b", "d"}) add_codes(module);
    add("c.weight", "F16", "[8,64]", std::string(1024, '\x2a'));
    const std::uint64_t length = header_.size() + 1;
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    folder_.write("model.safetensors", bytes + header_ + "}" + data_);
    checkpoint_.emplace(weights::Checkpoint::open(folder_.path()).value());
    weights::StoredQuant quant;
    quant.method = weights::StoredMethod::kGptq;
    quant.bits = 4;
    quant.group_size = 32;
    const Status status = weights::derive_tensors(quant, *checkpoint_);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  static Rows rows_of(const std::string& module) {
    Rows rows;
    rows.tensor = module + ".weight";
    rows.shape = {8, 64};
    rows.count = 8;
    return rows;
  }
  Linear linear(const std::vector<Rows>& rows, bool keeps_codes) {
    WeightLoader loader(*checkpoint_, prefixes_, *table_, {});
    const auto& plain =
        kernels::plain_format(keeps_codes ? tensor::DType::kBf16 : tensor::DType::kF32);
    auto out = loader.linear({rows, kInputs}, {plain, keeps_codes});
    EXPECT_TRUE(out.ok()) << out.status().message();
    limits_ = loader.limits();
    return std::move(out).value();
  }
  static std::vector<float> values_of(const Linear& linear) {
    std::vector<float> out;
    std::vector<float> row(kInputs);
    for (const kernels::MatrixImage& image : linear.pieces) {
      for (std::size_t n = 0; n < image.n; ++n) {
        image.ops->unpack_row(image, n, row.data());
        out.insert(out.end(), row.begin(), row.end());
      }
    }
    return out;
  }

  std::optional<weights::Checkpoint> checkpoint_;
  LinearLimits limits_;

 private:
  void add(const std::string& name,
           const std::string& type,
           const std::string& shape,
           const std::string& data) {
    header_ += (header_.size() == 1 ? "\"" : ",\"") + name + R"(":{"dtype":")" + type +
               R"(","shape":)" + shape + R"(,"data_offsets":[)" + std::to_string(data_.size()) +
               "," + std::to_string(data_.size() + data.size()) + "]}";
    data_ += data;
  }
  void add_codes(const std::string& module) {
    std::string codes;
    for (int i = 0; i < 256; ++i) codes += static_cast<char>(i * 37 + 11);
    add(module + ".qweight", "I32", "[8,8]", codes);
    add(module + ".qzeros", "I32", "[2,1]", std::string(8, module == "b" ? '\x58' : '\x88'));
    add(module + ".scales", "F16", "[2,8]", std::string(32, '\x2c'));
    std::string groups;
    for (int i = 0; i < kInputs; ++i)
      groups +=
          std::string(1, static_cast<char>(module == "d" ? i % 2 : i / 32)) + std::string(3, '\0');
    add(module + ".g_idx", "I32", "[64]", groups);
  }

  const base::TempFolder folder_;
  const std::vector<std::string> prefixes_{""};
  const kernels::KernelTable* table_ = kernels::select_kernels("scalar").value();
  std::string header_ = "{";
  std::string data_;
};

TEST_F(StoredCodes, AreDecodedExactlyWhereFloatsAreAskedFor) {
  const Linear all = linear({rows_of("a"), rows_of("b"), rows_of("c"), rows_of("d")}, false);
  ASSERT_EQ(all.pieces.size(), 1U);
  EXPECT_EQ(all.pieces.front().ops->format->name, "float32");
}

TEST_F(StoredCodes, ArePiecesOfTheFormatsThatTakeThem) {
  const std::vector<Rows> rows{rows_of("a"), rows_of("b"), rows_of("c")};
  const Linear kept = linear(rows, true);
  std::vector<std::string> formats;
  formats.reserve(kept.pieces.size());
  for (const kernels::MatrixImage& image : kept.pieces)
    formats.emplace_back(image.ops->format->name);
  EXPECT_THAT(formats, ElementsAre("int4", "int4-zero", "float16"));
  EXPECT_EQ(limits_.n_pieces, 3U);
  EXPECT_EQ(limits_.n_forms, 3U);
  EXPECT_EQ(values_of(kept), values_of(linear(rows, false)));
}

TEST_F(StoredCodes, OfOneTensorAreOnePiece) {
  Rows odd = rows_of("a");
  odd.first = 1;
  odd.step = 2;
  odd.count = 4;
  Rows even = odd;
  even.first = 0;
  const Linear kept = linear({odd, even}, true);
  ASSERT_EQ(kept.pieces.size(), 1U);
  EXPECT_EQ(kept.pieces.front().ops->format->name, "int4");
  EXPECT_EQ(values_of(kept), values_of(linear({odd, even}, false)));
}

TEST_F(StoredCodes, ThatNoFormatTakesBecomeTheOtherFormat) {
  const Linear kept = linear({rows_of("d")}, true);
  ASSERT_EQ(kept.pieces.size(), 1U);
  EXPECT_EQ(kept.pieces.front().ops->format->name, "bfloat16");
}

}  // namespace
}  // namespace coxswain::model
