#pragma once
// Test help: small heads that guess tokens, with random weights in float32.
//
// Thread rule: pure functions.

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "weights/safetensors_writer.h"

namespace coxswain::model {

struct TestHeads {
  std::string name;
  std::string config;  // of config.json, without the braces
  bool is_mlp = false;
  bool own_projection = true;  // of Medusa
  std::size_t n_heads = 3;
  std::size_t n_layers = 1;
  std::size_t inner = 0;
  bool tied = false;
  bool scaled = false;
};

inline std::vector<TestHeads> test_heads() {
  return {
      {.name = "medusa", .config = R"("medusa_num_heads":3,"medusa_num_layers":2)", .n_layers = 2},
      {.name = "medusa2",
       .config = R"("medusa_num_heads":3,"medusa_num_layers":1)",
       .own_projection = false},
      {.name = "mlp_tied",
       .config =
           R"("model_type":"mlp_speculator","n_predict":3,"inner_dim":32,"tie_weights":true,"scale_input":true)",
       .is_mlp = true,
       .inner = 32,
       .tied = true,
       .scaled = true},
      {.name = "mlp",
       .config = R"("model_type":"mlp_speculator","n_predict":2,"inner_dim":0)",
       .is_mlp = true,
       .n_heads = 2}};
}

using TestTensors = std::map<std::string, std::vector<float>>;

// Writes the folder; its tensors, for who computes the same.
inline TestTensors write_heads(const base::TempFolder& folder,
                               const TestHeads& heads,
                               std::size_t hidden,
                               std::size_t vocab) {
  folder.write("config.json", "{" + heads.config + R"(,"base_model_name_or_path":"../base"})");
  std::vector<weights::TensorDeclaration> tensors;
  const auto declare = [&](const std::string& name, std::vector<std::uint64_t> shape) {
    tensors.push_back({.name = name, .shape = std::move(shape)});
  };
  const std::size_t inner = heads.inner == 0 ? hidden : heads.inner;
  for (std::size_t i = 0; i < heads.n_heads; ++i) {
    const std::string n = std::to_string(i);
    for (std::size_t layer = 0; layer < heads.n_layers && !heads.is_mlp; ++layer) {
      declare(n + "." + std::to_string(layer) + ".linear.weight", {hidden, hidden});
      declare(n + "." + std::to_string(layer) + ".linear.bias", {hidden});
    }
    if (!heads.is_mlp) {
      if (heads.own_projection)
        declare(n + "." + std::to_string(heads.n_layers) + ".weight", {vocab, hidden});
      continue;
    }
    if (!heads.tied || i < 2)
      declare("speculator.proj." + n + ".weight", {inner, i == 0 ? hidden : inner});
    if (heads.tied && i > 0) continue;
    declare("speculator.emb." + n + ".weight", {vocab, inner});
    declare("speculator.head." + n + ".weight", {vocab, inner});
    declare("speculator.ln." + n + ".weight", {inner});
    declare("speculator.ln." + n + ".bias", {inner});
  }
  auto writer = weights::SafetensorsWriter::create(
      folder.file(heads.is_mlp ? "model.safetensors" : "medusa_lm_head.safetensors"), tensors);
  EXPECT_TRUE(writer.ok()) << writer.status().message();
  TestTensors out;
  std::mt19937 random(7);
  for (const weights::TensorDeclaration& tensor : tensors) {
    std::size_t n = 1;
    for (const std::uint64_t size : tensor.shape) n *= size;
    std::normal_distribution<float> any(0.0F,
                                        1 / std::sqrt(static_cast<float>(tensor.shape.back())));
    std::vector<float>& values = out[tensor.name];
    for (std::size_t i = 0; i < n; ++i) values.push_back(any(random));
    EXPECT_TRUE(writer->append(std::as_bytes(std::span(values))).ok());
  }
  EXPECT_TRUE(writer->finish().ok());
  return out;
}

}  // namespace coxswain::model
