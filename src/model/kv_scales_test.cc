// k_scale and v_scale of a checkpoint, beside a cache of 8-bit floats.

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/single_sequence.h"
#include "model/test_models.h"
#include "weights/checkpoint.h"
#include "weights/safetensors_writer.h"

namespace coxswain::model {
namespace {

using ::testing::HasSubstr;

// A power of two, so that nothing is rounded but what the cache rounds.
constexpr float kFactor = 4096.0F;
constexpr std::array<std::string_view, 2> kEach{"k_scale", "v_scale"};
constexpr std::array<std::string_view, 1> kBoth{"kv_scale"};

class KvScales : public testing::Test {
 protected:
  KvScales() {
    RandomCheckpointOptions options;
    options.dir = plain_.path();
    options.type = tensor::DType::kF32;
    const Status written = write_random_checkpoint(config_, options);
    EXPECT_TRUE(written.ok()) << written.message();
  }

  // The same model, but its keys and values are `factor` times as large, and its queries and outputs that much less;
  // with these scales in every layer.
  void write_scaled(const base::TempFolder& to,
                    std::span<const std::string_view> scales,
                    float scale) const {
    auto checkpoint = weights::Checkpoint::open(plain_.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    const weights::TensorFile& file = checkpoint->files().front();
    std::vector<weights::TensorDeclaration> all;
    std::vector<std::vector<float>> data;
    for (const weights::TensorInfo& tensor : file.tensors()) {
      std::vector<float> values(tensor.n_bytes() / sizeof(float));
      ASSERT_TRUE(file.read(tensor, 0, std::as_writable_bytes(std::span(values))).ok());
      for (float& value : values) value *= factor_of(tensor.name);
      all.push_back({tensor.name, tensor.type, tensor.shape});
      data.push_back(std::move(values));
    }
    for (int layer = 0; layer < 3; ++layer) {
      for (const std::string_view name : scales) {
        all.push_back({"model.layers." + std::to_string(layer) + ".self_attn." + std::string(name),
                       weights::StoredType::kF32,
                       {}});
        data.push_back({scale});
      }
    }
    auto writer = weights::SafetensorsWriter::create(to.path() + "/model.safetensors", all);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    for (const auto& values : data)
      ASSERT_TRUE(writer->append(std::as_bytes(std::span(values))).ok());
    ASSERT_TRUE(writer->finish().ok());
    to.write("config.json", json::write(config_));
  }

  static float factor_of(const std::string& name) {
    const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    if (has("k_proj") || has("v_proj")) return kFactor;
    return has("q_proj") || has("o_proj") ? 1.0F / kFactor : 1.0F;
  }

  static Result<std::unique_ptr<Model>> load(const base::TempFolder& folder) {
    LoadOptions options;
    options.kernels = kernels::select_kernels("").value();
    options.model_dir = folder.path();
    return Model::load(options);
  }

  static std::vector<float> logits(const base::TempFolder& folder, tensor::DType kv_type) {
    auto model = load(folder);
    EXPECT_TRUE(model.ok()) << model.status().message();
    const std::vector<TokenId> ids{3, 9, 27, 20, 60, 58, 52, 34};
    kernels::ExecContext exec(2);
    auto sequence = SingleSequence::create(**model, exec, {.kv_type = kv_type});
    EXPECT_TRUE(sequence.ok()) << sequence.status().message();
    sequence->restart(static_cast<std::uint32_t>(ids.size()));
    EXPECT_TRUE(sequence->feed(std::span(ids).first(5)).ok());
    EXPECT_TRUE(sequence->feed(std::span(ids).subspan(5)).ok());
    return sequence->logits(3).value();
  }

  const json::Value config_ = small_config(R"({"model_type":"llama"})");
  const base::TempFolder plain_;
};

TEST_F(KvScales, KeepWhatWouldNotFit) {
  const std::vector<float> expected = logits(plain_, tensor::DType::kF8E4M3);
  const base::TempFolder without;
  write_scaled(without, {}, 1.0F);
  EXPECT_NE(logits(without, tensor::DType::kF8E4M3), expected) << "they do fit";
  for (const std::span<const std::string_view> names :
       {std::span<const std::string_view>(kEach), std::span<const std::string_view>(kBoth)}) {
    const base::TempFolder scaled;
    write_scaled(scaled, names, kFactor);
    EXPECT_EQ(logits(scaled, tensor::DType::kF8E4M3), expected) << names.front();
    auto model = load(scaled);
    ASSERT_TRUE(model.ok());
    EXPECT_THAT((*model)->info().warnings, testing::IsEmpty());
  }
}

TEST_F(KvScales, AreOfNoOtherCache) {
  const base::TempFolder scaled;
  write_scaled(scaled, kEach, kFactor);
  for (const tensor::DType type : {tensor::DType::kF32, tensor::DType::kBf16})
    EXPECT_EQ(logits(scaled, type), logits(plain_, type)) << tensor::name_of(type);
}

TEST_F(KvScales, ThatAreNoScalesAreRefusedByName) {
  for (const float scale : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(), HUGE_VALF}) {
    const base::TempFolder scaled;
    write_scaled(scaled, kEach, scale);
    EXPECT_THAT(load(scaled).status().message(),
                HasSubstr("tensor \"model.layers.0.self_attn.k_scale\" is a scale, which has to be "
                          "a finite number above 0"))
        << scale;
  }
}

}  // namespace
}  // namespace coxswain::model
