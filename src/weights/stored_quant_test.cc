// What is refused of quantised checkpoints, and names of modules. Their values: coxswain-conformance quant.

#include "weights/stored_quant.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/checkpoint.h"
#include "weights/safetensors.h"
#include "weights/test_files.h"

namespace coxswain::weights {
namespace {

using testing::HasSubstr;

struct TestTensor {
  std::string type;
  std::vector<std::uint64_t> shape;
  std::string data = {};  // zeros up to the size of the shape
};
using Tensors = std::map<std::string, TestTensor>;

std::string file_bytes(const Tensors& tensors) {
  std::string header = "{";
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    std::string bytes = tensor.data;
    bytes.resize(*stored_bytes(*find_stored_type(tensor.type), tensor.shape), '\0');
    data += bytes;
    std::string shape;
    for (const std::uint64_t extent : tensor.shape)
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    header += (begin == 0 && header.size() == 1 ? "" : ",");
    header += "\"" + name + R"(":{"dtype":")" + tensor.type + R"(","shape":[)" + shape +
              R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(data.size()) +
              "]}";
  }
  return safetensors_bytes(header + "}", data);
}

// Derives the tensors and reads all rows of `name`.
Status read_all_of(const StoredQuant& quant, const Tensors& tensors, const std::string& name) {
  const base::TempFolder folder;
  folder.write("model.safetensors", file_bytes(tensors));
  COXSWAIN_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(folder.path()));
  COXSWAIN_RETURN_IF_ERROR(derive_tensors(quant, checkpoint));
  const auto at = checkpoint.find(name);
  if (at.derived == nullptr) return {Code::kNotFound, name + " is not derived"};
  COXSWAIN_ASSIGN_OR_RETURN(
      const auto rows,
      at.derived->open(
          [](const StoredTensor& part, std::uint64_t offset, std::span<std::byte> out) {
            return part.file->read(*part.info, offset, out);
          }));
  std::uint64_t n = 1;
  for (const std::uint64_t extent : at.tensor->shape) n *= extent;
  std::vector<float> values(n);
  return rows->read(0, n / at.tensor->shape.back(), values.data());
}

struct Case {
  std::string what;
  Tensors changed;      // replaces those of the same names
  std::string removed;  // a name
  std::string message;
};

void expect_refused(const StoredQuant& quant,
                    const Tensors& good,
                    const std::string& name,
                    const std::vector<Case>& cases) {
  const Status status = read_all_of(quant, good, name);
  EXPECT_TRUE(status.ok()) << status.message();
  for (const Case& c : cases) {
    Tensors tensors = good;
    for (const auto& [key, tensor] : c.changed) tensors[key] = tensor;
    tensors.erase(c.removed);
    EXPECT_THAT(read_all_of(quant, tensors, name).message(), HasSubstr(c.message)) << c.what;
  }
}

TEST(StoredQuant, NamesOfModules) {
  const std::string module = "model.layers.1.mlp.down_proj";
  for (const char* pattern : {"down_proj",
                              "mlp",
                              "mlp.down_proj",
                              "model.layers.1",
                              "model.layers.*.mlp",
                              "re:.*down_proj",
                              "re:^model\\.layers\\..*proj$",
                              "re:model"}) {
    EXPECT_TRUE(names_module({"lm_head", pattern}, module)) << pattern;
  }
  for (const char* pattern : {"",
                              "down",
                              "layers.11",
                              "model.layers.1.mlp.down",
                              "re:down_proj",
                              "re:.*mlp$",
                              "re:(a|b)*"}) {
    EXPECT_FALSE(names_module({pattern}, module)) << pattern;
  }
  EXPECT_FALSE(names_module({}, module));
}

StoredQuant gptq(std::uint32_t bits) {
  StoredQuant out;
  out.method = StoredMethod::kGptq;
  out.bits = bits;
  out.group_size = 32;
  out.zeros_less_one = true;
  return out;
}

TEST(StoredQuant, RefusesGptqPartsByName) {
  const Tensors good{{"m.qweight", {"I32", {8, 16}}},
                     {"m.qzeros", {"I32", {2, 2}}},
                     {"m.scales", {"F16", {2, 16}}},
                     {"m.g_idx", {"I32", {64}}}};
  expect_refused(
      gptq(4),
      good,
      "m.weight",
      {
          {"no zeros", {}, "m.qzeros", "tensor \"m.qzeros\" is missing"},
          {"no codes", {}, "m.qweight", "tensor \"m.qweight\" is missing"},
          {"type", {{"m.qweight", {"F32", {8, 16}}}}, "", "\"m.qweight\" has type F32, not I32"},
          {"vector", {{"m.qweight", {"I32", {8}}}}, "", "has shape [8], not that of a matrix"},
          {"empty",
           {{"m.qweight", {"I32", {0, 16}}}},
           "",
           "has shape [0, 16], not that of a matrix"},
          {"groups", {{"m.scales", {"F16", {3, 16}}}}, "", "\"m.scales\" has 3 groups, 64 inputs"},
          {"outputs", {{"m.scales", {"F16", {2, 15}}}}, "", "ask for [2, 16]"},
          {"zeros", {{"m.qzeros", {"I32", {2, 3}}}}, "", "\"m.qzeros\" has shape [2, 3]"},
          {"index", {{"m.g_idx", {"I32", {63}}}}, "", "\"m.g_idx\" has shape [63]"},
          {"group 2", {{"m.g_idx", {"I32", {64}, "\2"}}}, "", "\"m.g_idx\" holds group 2"},
          {"group -1",
           {{"m.g_idx", {"I32", {64}, "\xff\xff\xff\xff"}}},
           "",
           "\"m.g_idx\" holds group -1"},
          {"both", {{"m.weight", {"F16", {16, 64}}}}, "", "\"m.weight\" stands beside \"m.g_idx\""},
      });
  EXPECT_THAT(read_all_of(gptq(3), good, "m.weight").message(), HasSubstr("not whole codes of 3"));
  StoredQuant listed = gptq(4);
  listed.plain_modules = {"m"};
  EXPECT_THAT(read_all_of(listed, good, "m.weight").message(), HasSubstr("lists its module"));
  EXPECT_THAT(read_all_of(gptq(4), {{"m.weight", {"F16", {16, 64}}}}, "m.weight").message(),
              HasSubstr("quant_method is gptq, but no tensor ends in .qweight"));
}

TEST(StoredQuant, RefusesAwqPartsByName) {
  StoredQuant quant;
  quant.method = StoredMethod::kAwq;
  quant.bits = 4;
  quant.group_size = 32;
  const Tensors good{{"m.qweight", {"I32", {64, 2}}},
                     {"m.qzeros", {"I32", {2, 2}}},
                     {"m.scales", {"F16", {2, 16}}}};
  expect_refused(
      quant,
      good,
      "m.weight",
      {
          {"no zeros", {}, "m.qzeros", "tensor \"m.qzeros\" is missing"},
          {"no scales", {}, "m.scales", "tensor \"m.scales\" is missing"},
          {"zeros", {{"m.qzeros", {"I32", {1, 2}}}}, "", "\"m.qzeros\" has shape [1, 2]"},
          {"groups", {{"m.scales", {"F16", {1, 16}}}}, "", "\"m.scales\" has 1 groups"},
          {"scales", {{"m.scales", {"I32", {2, 16}}}}, "", "has type I32, not F16"},
      });
}

}  // namespace
}  // namespace coxswain::weights
