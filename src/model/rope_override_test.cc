#include "model/rope_override.h"

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/families/family.h"
#include "model/rope.h"
#include "model/test_models.h"

namespace coxswain::model {
namespace {

using ::testing::HasSubstr;

constexpr RopeOverride kLinear4{.scaling = RopeScaling::kLinear, .factor = 4.0};
constexpr RopeOverride kDynamic2{.scaling = RopeScaling::kDynamic, .factor = 2.0};

ArchSpec arch_of(std::string_view fields) {
  auto out = read_architecture(small_config(fields));
  EXPECT_TRUE(out.ok()) << out.status().message();
  return std::move(out->arch);
}

// 1 / theta^(2i / d), the published formula.
double plain(double theta, std::size_t i, double dim) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / dim);
}

std::vector<float> frequencies(const ArchSpec& arch, std::uint32_t length) {
  std::vector<float> out(arch.ropes.front().rotary_dim / 2);
  rope_frequencies(arch.ropes.front(), length, out);
  return out;
}

TEST(RopeOverride, LinearDividesTheAnglesOfEveryLength) {
  ArchSpec arch = arch_of(R"({"model_type":"llama","rope_theta":500})");
  ASSERT_TRUE(apply(kLinear4, arch).ok());
  EXPECT_EQ(arch.max_positions, 512U);
  for (const std::uint32_t length : {1U, 128U, 512U}) {
    const auto got = frequencies(arch, length);
    ASSERT_EQ(got.size(), 6U);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_FLOAT_EQ(got[i], static_cast<float>(plain(500, i, 12) / 4)) << i;
  }
  EXPECT_EQ(rope_switch(arch.ropes.front()).length, 0U);
}

TEST(RopeOverride, DynamicStretchesTheBaseBehindTheTrainedLength) {
  ArchSpec arch = arch_of(R"({"model_type":"llama","rope_theta":500})");
  ASSERT_TRUE(apply(kDynamic2, arch).ok());
  EXPECT_EQ(arch.max_positions, 256U);
  for (const std::uint32_t length : {1U, 128U, 129U, 256U}) {
    // base * ((factor * length / trained) - (factor - 1))^(d / (d - 2)), from the trained length on
    const double stretch = length <= 128 ? 1.0 : 2.0 * length / 128.0 - 1.0;
    const double theta = 500 * std::pow(stretch, 12.0 / 10.0);
    const auto got = frequencies(arch, length);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_FLOAT_EQ(got[i], static_cast<float>(plain(theta, i, 12))) << i << " of " << length;
  }
  EXPECT_EQ(rope_switch(arch.ropes.front()).length, 128U);
  EXPECT_TRUE(rope_switch(arch.ropes.front()).exact);
}

TEST(RopeOverride, DynamicTakesAsManyPositionsAsAreAskedFor) {
  const auto positions = [](RopeOverride override) {
    ArchSpec arch = arch_of(R"({"model_type":"llama"})");
    EXPECT_TRUE(apply(override, arch).ok());
    EXPECT_EQ(arch.ropes.front().original_max_positions, 128.0);
    return arch.max_positions;
  };
  EXPECT_EQ(positions({.scaling = RopeScaling::kDynamic, .positions_min = 400}), 400U);
  EXPECT_EQ(positions({.scaling = RopeScaling::kDynamic, .factor = 4, .positions_min = 400}), 512U);
  EXPECT_EQ(positions({.scaling = RopeScaling::kLinear, .factor = 2, .positions_min = 400}), 256U);
}

TEST(RopeOverride, NothingIsLeftOfTheModelsOwnScaling) {
  ArchSpec own = arch_of(
      R"({"model_type":"llama","rope_scaling":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":32}})");
  ArchSpec none = arch_of(R"({"model_type":"llama"})");
  ASSERT_TRUE(apply(kLinear4, own).ok());
  ASSERT_TRUE(apply(kLinear4, none).ok());
  EXPECT_EQ(own.ropes, none.ropes);
  EXPECT_EQ(own.max_positions, none.max_positions);
}

TEST(RopeOverride, LayersWithAWindowKeepARopeOfTheirOwn) {
  constexpr std::string_view kTwo =
      R"({"model_type":"gemma3_text","head_dim":16,"sliding_window":9,"sliding_window_pattern":2})";
  const ArchSpec before = arch_of(kTwo);
  ArchSpec arch = arch_of(kTwo);
  ASSERT_TRUE(apply(kLinear4, arch).ok());
  ASSERT_EQ(arch.ropes.size(), 2U);
  EXPECT_EQ(arch.ropes[0].factor, 4.0);
  EXPECT_EQ(arch.ropes[1], before.ropes[1]);
}

struct Outcome {
  std::vector<float> logits;  // [vocab], behind 140 tokens
  std::uint64_t fingerprint = 0;
};

Outcome outcome_of(std::string_view fields, std::optional<RopeOverride> rope) {
  const base::TempFolder folder;
  LoadOptions how;
  how.kernels = *kernels::kernel_table(kernels::Isa::kScalar);
  how.rope = rope;
  const auto model = load_small(folder, small_config(fields), how);
  kernels::ExecContext exec(1);
  auto sequence = SingleSequence::create(*model, exec, {});
  EXPECT_TRUE(sequence.ok()) << sequence.status().message();
  std::vector<TokenId> ids(140);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(7 * i % 61);
  sequence->restart(150);
  EXPECT_TRUE(sequence->feed(ids).ok());
  return {sequence->logits(1).value(), model->info().fingerprint};
}

// Bit for bit; the conformance tests hold configs with a scaling against the reference.
TEST(RopeOverride, AModelComputesAsIfItsConfigSaidSo) {
  struct Case {
    RopeOverride override;
    std::string_view plain;
    std::string_view scaled;
  };
  const std::vector<Case> cases{
      {kLinear4,
       R"({"model_type":"llama","max_position_embeddings":200})",
       R"({"model_type":"llama","max_position_embeddings":200,"rope_scaling":{"type":"linear","factor":4}})"},
      {kDynamic2,
       R"({"model_type":"llama","max_position_embeddings":128})",
       R"({"model_type":"llama","max_position_embeddings":128,"rope_scaling":{"type":"dynamic","factor":2}})"}};
  std::vector<std::uint64_t> fingerprints;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.scaled);
    const Outcome overridden = outcome_of(one.plain, one.override);
    EXPECT_EQ(overridden.logits, outcome_of(one.scaled, std::nullopt).logits);
    const Outcome own = outcome_of(one.plain, std::nullopt);
    EXPECT_NE(overridden.logits, own.logits);
    // What is cached for one must not serve the other.
    EXPECT_NE(overridden.fingerprint, own.fingerprint);
  }
}

std::string refusal(const RopeOverride& override, ArchSpec arch) {
  const Status status = apply(override, arch);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  return status.field() + ": " + status.message();
}

TEST(RopeOverride, WhatMakesNoSenseIsRefusedByName) {
  EXPECT_EQ(refusal(kLinear4, arch_of(R"({"model_type":"opt","ffn_dim":56})")),
            "rope_scaling: `rope_scaling` and `rope_factor` must be left out: this model has no "
            "rotary embedding");
  EXPECT_EQ(refusal({.factor = 0.5}, arch_of(R"({"model_type":"llama"})")),
            "rope_factor: `rope_factor` must be a number from 1 to 1e+06. Given: 0.5");
  EXPECT_THAT(refusal({.factor = std::nan("")}, arch_of(R"({"model_type":"llama"})")),
              HasSubstr("Given: nan"));
  EXPECT_EQ(refusal({.factor = 1e6}, arch_of(R"({"model_type":"llama"})")),
            "rope_factor: `rope_factor` must be at most 131072 for a model with 128 positions, as "
            "16777216 are the limit. Given: 1e+06");
  EXPECT_THAT(refusal(kDynamic2, arch_of(R"({"model_type":"llama","head_dim":2})")),
              HasSubstr("dynamic needs more than two rotary dimensions"));
}

}  // namespace
}  // namespace coxswain::model
