#include "model/rope.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::model {
namespace {

using ::testing::HasSubstr;

struct Read {
  RopeSpec rope;
  Status status;
};

Read read(const std::string& config,
          std::uint32_t head_dim = 8,
          std::uint32_t max_positions = 128) {
  const json::Value value = json::parse(config).value();
  ConfigReader reader(value, "config.json: ");
  RopeDefaults defaults;
  defaults.takes_partial = true;
  const RopeSpec rope = read_rope(reader, {head_dim, max_positions}, defaults);
  return {rope, reader.status()};
}

std::vector<float> frequencies(const RopeSpec& rope, std::uint32_t length = 1) {
  std::vector<float> out(rope.rotary_dim / 2);
  rope_frequencies(rope, length, out);
  return out;
}

TEST(Rope, PlainFrequenciesFallGeometrically) {
  const auto plain = frequencies(read(R"({"rope_theta":10000})").rope);
  ASSERT_EQ(plain.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_FLOAT_EQ(plain[i], static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / 4)));
}

TEST(Rope, PartialTurnsTheFirstDimensionsOnly) {
  EXPECT_EQ(read(R"({"partial_rotary_factor":0.4})", 16).rope.rotary_dim, 6U);
  const Read odd = read(R"({"partial_rotary_factor":0.4})", 8);
  EXPECT_THAT(odd.status.message(), HasSubstr("partial_rotary_factor gives 3 rotary dimensions"));
}

TEST(Rope, LinearDividesByTheFactor) {
  const auto plain = frequencies(read("{}").rope);
  const auto linear = frequencies(read(R"({"rope_scaling":{"type":"linear","factor":4}})").rope);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(linear[i], plain[i] / 4);
}

TEST(Rope, DynamicStretchesTheBaseBeyondTheTrainedLength) {
  const RopeSpec rope = read(R"({"rope_scaling":{"type":"dynamic","factor":2}})", 8, 48).rope;
  EXPECT_EQ(rope_switch(rope).length, 48U);
  EXPECT_TRUE(rope_switch(rope).exact);
  const auto plain = frequencies(read("{}").rope);
  EXPECT_EQ(frequencies(rope, 48), plain);
  // theta * (factor * length / trained - (factor - 1)) ^ (d / (d - 2))
  const double theta = 10000.0 * std::pow(2.0 * 96 / 48 - 1.0, 8.0 / 6.0);
  const auto stretched = frequencies(rope, 96);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_FLOAT_EQ(stretched[i], static_cast<float>(std::pow(theta, -static_cast<double>(i) / 4)));
  }
}

TEST(Rope, DynamicStartsAtTheLengthOfTheConfig) {
  const RopeSpec rope =
      read(
          R"({"rope_scaling":{"type":"dynamic","factor":2,"original_max_position_embeddings":16}})",
          8,
          48)
          .rope;
  EXPECT_EQ(rope_switch(rope).length, 48U);
}

TEST(Rope, TheTrainedLengthBesideTheScalingWins) {
  const std::string scaling =
      R"("rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":16}})";
  EXPECT_EQ(read("{" + scaling).rope.original_max_positions, 16.0);
  EXPECT_EQ(
      read(R"({"original_max_position_embeddings":64,)" + scaling).rope.original_max_positions,
      64.0);
}

TEST(Rope, RopeScalingWinsOverRopeParametersUnlessEmpty) {
  const std::string newer = R"("rope_parameters":{"rope_type":"linear","factor":4}})";
  const auto scaling = [&](const std::string& older) { return read(older + newer).rope.scaling; };
  EXPECT_EQ(scaling(R"({"rope_scaling":{"type":"default"},)"), RopeScaling::kNone);
  EXPECT_EQ(scaling(R"({"rope_scaling":{},)"), RopeScaling::kLinear);
  EXPECT_EQ(scaling(R"({"rope_scaling":null,)"), RopeScaling::kLinear);
  EXPECT_EQ(read(R"({"rope_scaling":{},"rope_theta":7})").rope.theta, 7.0);
}

TEST(Rope, LongRopeTakesTheFactorOfTheConfigForItsAttentionFactor) {
  const std::string factors =
      R"("original_max_position_embeddings":64,"short_factor":[1,1,1,2],"long_factor":[1,2,3,4]}})";
  const auto attention = [&](const std::string& factor) {
    return read(R"({"rope_scaling":{"type":"longrope",)" + factor + factors, 8, 256)
        .rope.attention_factor;
  };
  EXPECT_DOUBLE_EQ(attention(""), std::sqrt(1.0 + std::log(4.0) / std::log(64.0)));
  EXPECT_DOUBLE_EQ(attention(R"("factor":9,)"), std::sqrt(1.0 + std::log(9.0) / std::log(64.0)));
  EXPECT_EQ(attention(R"("factor":1,)"), 1.0);
}

TEST(Rope, LongRopeHasTwoSetsOfFactors) {
  const RopeSpec rope =
      read(
          R"({"original_max_position_embeddings":64,"rope_scaling":{"type":"longrope","short_factor":[1,1,1,2],"long_factor":[1,2,3,4]}})",
          8,
          256)
          .rope;
  EXPECT_EQ(rope_switch(rope).length, 64U);
  EXPECT_FALSE(rope_switch(rope).exact);
  const auto plain = frequencies(read("{}").rope);
  EXPECT_FLOAT_EQ(frequencies(rope, 64)[3], plain[3] / 2);
  EXPECT_FLOAT_EQ(frequencies(rope, 65)[3], plain[3] / 4);
  EXPECT_DOUBLE_EQ(rope.attention_factor, std::sqrt(1.0 + std::log(4.0) / std::log(64.0)));
}

TEST(Rope, Llama3KeepsFastTurnsAndSlowsSlowOnes) {
  const RopeSpec rope =
      read(
          R"({"rope_theta":500000,"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,)"
          R"("high_freq_factor":4,"original_max_position_embeddings":64}})",
          16,
          512)
          .rope;
  RopeSpec plain = rope;
  plain.scaling = RopeScaling::kNone;
  const auto scaled = frequencies(rope);
  const auto base = frequencies(plain);
  EXPECT_FLOAT_EQ(scaled.front(), base.front());
  EXPECT_FLOAT_EQ(scaled.back(), base.back() / 8);
  EXPECT_EQ(rope_switch(rope).length, 0U);
}

TEST(Rope, YarnInterpolatesSlowTurnsAndRaisesAttention) {
  const RopeSpec rope =
      read(
          R"({"rope_scaling":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":64}})",
          16,
          256)
          .rope;
  RopeSpec plain = rope;
  plain.scaling = RopeScaling::kNone;
  EXPECT_FLOAT_EQ(frequencies(rope).front(), frequencies(plain).front());
  EXPECT_FLOAT_EQ(frequencies(rope).back(), frequencies(plain).back() / 4);
  EXPECT_DOUBLE_EQ(rope.attention_factor, 0.1 * std::log(4.0) + 1.0);
  const RopeSpec given =
      read(R"({"rope_scaling":{"rope_type":"yarn","factor":4,"attention_factor":1.25}})").rope;
  EXPECT_DOUBLE_EQ(given.attention_factor, 1.25);
}

TEST(Rope, NewConfigsKeepEverythingInRopeParameters) {
  const RopeSpec rope =
      read(R"({"rope_parameters":{"rope_theta":500000,"rope_type":"linear","factor":2}})").rope;
  EXPECT_DOUBLE_EQ(rope.theta, 500000.0);
  EXPECT_EQ(rope.scaling, RopeScaling::kLinear);
}

TEST(Rope, FaultsNameTheField) {
  const auto message = [](const std::string& config) { return read(config).status.message(); };
  EXPECT_THAT(message(R"({"rope_theta":0})"),
              HasSubstr("config.json: rope_theta must be a number from 1"));
  EXPECT_THAT(message(R"({"rope_theta":1e13})"), HasSubstr("not 1e13"));
  EXPECT_THAT(message(R"({"rope_scaling":5})"), HasSubstr("rope_scaling must be an object"));
  EXPECT_THAT(message(R"({"rope_scaling":{"type":"linear","factor":0.5}})"),
              HasSubstr("rope_scaling.factor must be a number from 1 to 1000000, not 0.5"));
  EXPECT_THAT(message(R"({"rope_scaling":{"type":"dynamic","factor":-2}})"),
              HasSubstr("rope_scaling.factor must be a number"));
  EXPECT_THAT(
      message(
          R"({"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":0}})"),
      HasSubstr("rope_scaling.original_max_position_embeddings must be a number from 2"));
  EXPECT_THAT(message(R"({"rope_scaling":{"type":"yarn","factor":4,"attention_factor":0}})"),
              HasSubstr("rope_scaling.attention_factor must be a number"));
  EXPECT_THAT(message(R"({"rope_theta":1,"rope_scaling":{"type":"yarn","factor":4}})"),
              HasSubstr("rope_theta must be above 1 for yarn"));
  EXPECT_THAT(message(R"({"rope_scaling":{"type":"llama3","factor":8,"low_freq_factor":1}})"),
              HasSubstr("rope_scaling.high_freq_factor is missing"));
  EXPECT_THAT(
      message(
          R"({"rope_scaling":{"type":"longrope","short_factor":[1,1,0,1],"long_factor":[1,1,1,1]}})"),
      HasSubstr("short_factor must hold numbers from 0.001000 to 1000000, not 0"));
  EXPECT_THAT(
      read(
          R"({"rope_scaling":{"type":"longrope","factor":4,"short_factor":[1,1,1,1],"long_factor":[1,1,1,1]}})",
          8,
          1)
          .status.message(),
      HasSubstr("original_max_position_embeddings must be above 1 for longrope"));
  EXPECT_THAT(read(R"({"rope_scaling":{"type":"dynamic","factor":2}})", 2).status.message(),
              HasSubstr("dynamic needs more than two rotary dimensions"));
  EXPECT_THAT(message(R"({"rope_parameters":{"full_attention":{"rope_theta":1e6}}})"),
              HasSubstr("rope_parameters.full_attention"));
  EXPECT_THAT(message(R"({"rope_scaling":{"type":"linear"}})"),
              HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(message(R"({"rope_scaling":{"type":"mrope"}})"),
              HasSubstr("\"mrope\" is not supported"));
  EXPECT_THAT(
      message(R"({"rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":[1]}})"),
      HasSubstr("short_factor must be a list of 4"));
  EXPECT_THAT(
      message(
          R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4}})"),
      HasSubstr("high_freq_factor must be above"));
}

}  // namespace
}  // namespace coxswain::model
