// Blocks against the readers' decoders, the mix, and whole files.

#include "quantize/gguf_output.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "gguf/testing/file_bytes.h"
#include "quantize/block_encoder.h"
#include "weights/gguf_blocks.h"

namespace coxswain::quantize {
namespace {

using gguf::testing::FileBytes;
using testing::HasSubstr;

constexpr std::size_t kBlockValuesMax = 256;

std::vector<float> values_of(std::size_t n, std::uint32_t seed) {
  std::vector<float> out(n);
  std::uint32_t state = seed;
  for (float& value : out) {
    float sum = 0;
    for (int i = 0; i < 4; ++i) {
      state = state * 1664525U + 1013904223U;
      sum += static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
    }
    value = sum * 0.05F;
  }
  return out;
}

double relative_error(const std::vector<float>& wanted, const std::vector<float>& found) {
  double off = 0;
  double size = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    off += std::pow(wanted[i] - found[i], 2.0);
    size += std::pow(wanted[i], 2.0);
  }
  return std::sqrt(off / size);
}

struct TypeCase {
  const char* name;
  std::size_t values;
  std::size_t bytes;
  double error_max;  // of normal values: what codes of so many bits leave
};
constexpr TypeCase kTypes[] = {{"F32", 1, 4, 0},
                               {"F16", 1, 2, 0.001},
                               {"BF16", 1, 2, 0.004},
                               {"Q8_0", 32, 34, 0.006},
                               {"Q4_0", 32, 18, 0.09},
                               {"Q5_0", 32, 22, 0.045},
                               {"Q4_K", 256, 144, 0.08},
                               {"Q5_K", 256, 176, 0.04},
                               {"Q6_K", 256, 210, 0.02}};

TEST(BlockEncoder, LosesNoMoreThanItsBits) {
  const std::vector<float> values = values_of(kBlockValuesMax * 8, 5);
  for (const TypeCase& type : kTypes) {
    const EncodeBlock encode = find_block_encoder(type.name);
    ASSERT_NE(encode, nullptr) << type.name;
    std::vector<std::byte> block(type.bytes);
    std::vector<float> found(values.size());
    for (std::size_t i = 0; i < values.size(); i += type.values) {
      encode(values.data() + i, block.data());
      weights::find_block_decoder(type.name)(block.data(), found.data() + i);
    }
    EXPECT_LE(relative_error(values, found), type.error_max) << type.name;
  }
  EXPECT_EQ(find_block_encoder("Q2_K"), nullptr);
}

// What a block can hold exactly stays what it is: bits that stand elsewhere would change it.
TEST(BlockEncoder, WhatFitsStaysAsItIs) {
  for (const TypeCase& type : kTypes) {
    std::vector<float> values = values_of(type.values, 9);
    std::vector<float> once(type.values);
    std::vector<std::byte> block(type.bytes);
    std::vector<float> zeros(type.values);
    find_block_encoder(type.name)(zeros.data(), block.data());
    weights::find_block_decoder(type.name)(block.data(), once.data());
    EXPECT_EQ(once, zeros) << type.name;
    // Each value alone, so that none takes the place of another.
    for (std::size_t i = 0; i < type.values; i += 7) {
      zeros.assign(type.values, 0.0F);
      zeros[i] = -0.5F;
      find_block_encoder(type.name)(zeros.data(), block.data());
      weights::find_block_decoder(type.name)(block.data(), once.data());
      for (std::size_t j = 0; j < type.values; ++j)
        ASSERT_NEAR(once[j], zeros[j], 0.04F) << type.name << " " << i << " " << j;
    }
  }
}

std::string f32_bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

FileBytes file_of(std::uint32_t n_layers) {
  FileBytes out;
  out.key("general.architecture", gguf::testing::string_value("llama"))
      .key("general.file_type", gguf::testing::u32_value(0))
      .key("llama.block_count", gguf::testing::u32_value(n_layers))
      .key("some.floats", gguf::testing::f32s_value({1.5F, 2.5F}))
      .key("some.texts", gguf::testing::strings_value({"a", "", "\xC3\xA9"}));
  return out;
}

Status rewrite(const std::string& from, const std::string& to, std::string_view mix) {
  const auto source = open_gguf_source(from);
  if (!source.ok()) return source.status();
  base::ThreadPool pool(2);
  return write_gguf(*source, to, mix, pool);
}

TEST(GgufOutput, KeysAndTensorsArriveAndWhatIsNoMatrixStays) {
  const base::TempFolder folder;
  const std::vector<float> matrix = values_of(3 * 512, 1);
  const std::vector<float> norm = values_of(512, 2);
  const std::vector<float> narrow = values_of(2 * 40, 3);
  FileBytes file = file_of(1);
  file.tensor_with("blk.0.ffn_up.weight", {512, 3}, 0, f32_bytes(matrix))
      .tensor_with("blk.0.ffn_norm.weight", {512}, 0, f32_bytes(norm))
      .tensor_with("blk.0.attn_q.weight", {40, 2}, 0, f32_bytes(narrow));
  const std::string from = folder.write("a-f32.gguf", file.bytes());
  const std::string to = folder.file("out.gguf");
  const Status status = rewrite(from, to, "Q4_K_M");
  ASSERT_TRUE(status.ok()) << status.message();
  const auto header = gguf::Header::read(to);
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->number("general.file_type"), 15);
  EXPECT_EQ(header->number("general.quantization_version"), 2);
  EXPECT_THAT(header->texts("some.texts"), testing::ElementsAre("a", "", "\xC3\xA9"));
  EXPECT_EQ(header->find("some.floats")->number(1), 2.5);
  const auto tensors = header->tensors();
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[0].type->name, "Q4_K");
  EXPECT_EQ(tensors[1].type->name, "F32");
  EXPECT_EQ(tensors[2].type->name, "F16");  // rows of 40
  const auto out = weights::TensorFile::open(to);
  ASSERT_TRUE(out.ok());
  std::vector<float> found(512);
  ASSERT_TRUE(out->read_at(tensors[1].begin, std::as_writable_bytes(std::span(found))));
  EXPECT_EQ(found, norm);
  std::vector<std::byte> blocks(6 * 144);
  ASSERT_TRUE(out->read_at(tensors[0].begin, blocks));
  std::vector<float> decoded(matrix.size());
  for (std::size_t b = 0; b < 6; ++b)
    weights::find_block_decoder("Q4_K")(blocks.data() + b * 144, decoded.data() + b * 256);
  EXPECT_LE(relative_error(matrix, decoded), 0.08);
  EXPECT_THAT(rewrite(to, folder.file("again.gguf"), "Q8_0").message(),
              HasSubstr("\"blk.0.ffn_up.weight\" is stored as Q4_K already"));
}

TEST(GgufOutput, TheMixIsLlamaCpps) {
  const base::TempFolder folder;
  FileBytes file = file_of(16);
  const std::vector<std::string> names{"token_embd.weight",
                                       "blk.1.attn_v.weight",
                                       "blk.2.attn_v.weight",
                                       "blk.4.ffn_down.weight",
                                       "blk.5.ffn_down.weight",
                                       "blk.14.ffn_down.weight",
                                       "blk.4.attn_q.weight",
                                       "blk.4.attn_qkv.weight",
                                       "blk.4.ffn_gate_inp.weight"};
  const std::string row = f32_bytes(std::vector<float>(256));
  for (const std::string& name : names) file.tensor_with(name, {256, 1}, 0, row);
  const auto types = [&](const std::string& path, std::string_view mix) {
    const auto source = open_gguf_source(path);
    EXPECT_TRUE(source.ok());
    std::vector<std::string> out;
    for (const GgufSourceTensor& each : source->tensors)
      out.emplace_back(type_in_mix(mix, *source, each.tensor));
    return out;
  };
  const std::string tied = folder.write("tied.gguf", file.bytes());
  // Layers 0 and 1, 14 and 15, and 4, 7, 10, 13.
  EXPECT_THAT(
      types(tied, "Q4_K_M"),
      testing::ElementsAre("Q6_K", "Q6_K", "Q4_K", "Q6_K", "Q4_K", "Q6_K", "Q4_K", "Q5_K", "F32"));
  EXPECT_THAT(types(tied, "Q4_0"), testing::Contains("Q6_K").Times(1));
  EXPECT_THAT(types(tied, "Q8_0"), testing::Contains("Q8_0").Times(8));
  EXPECT_THAT(types(tied, "BF16"), testing::Contains("BF16").Times(8));
  file.tensor_with("output.weight", {256, 1}, 0, row);
  const auto untied = types(folder.write("untied.gguf", file.bytes()), "Q4_K_M");
  EXPECT_EQ(untied.front(), "Q4_K");
  EXPECT_EQ(untied.back(), "Q6_K");
}

}  // namespace
}  // namespace coxswain::quantize
