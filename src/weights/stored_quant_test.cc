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

StoredQuant of_method(StoredMethod method) {
  StoredQuant out;
  out.method = method;
  out.bits = 4;
  return out;
}

TEST(StoredQuant, RefusesMarlinPartsByName) {
  const Tensors good{{"m.B", {"I32", {2, 128}}}, {"m.s", {"F16", {1, 64}}}};
  expect_refused(of_method(StoredMethod::kMarlin),
                 good,
                 "m.weight",
                 {
                     {"no scales", {}, "m.s", "tensor \"m.s\" is missing"},
                     {"line", {{"m.B", {"I32", {2, 96}}}}, "", "\"m.B\" has 96 words in a line"},
                     {"groups", {{"m.s", {"F16", {2, 64}}}}, "", "\"m.s\" has 2 groups"},
                     {"outputs", {{"m.s", {"F16", {1, 128}}}}, "", "ask for [1, 64]"},
                 });
}

TEST(StoredQuant, RefusesExl2PartsByName) {
  // Two groups: 4 bits in lines 0 to 3, 2 bits in line 4; 32 and 16 inputs.
  const std::string groups("\4\0\0\0\2\0\4\0", 8);
  std::string order;
  for (char i = 0; i < 48; ++i) order += std::string(1, i) + std::string(3, '\0');
  std::string twice = order;
  twice[4] = 0;
  const Tensors good{{"m.q_weight", {"I32", {5, 8}}},
                     {"m.q_groups", {"I16", {4}, groups}},
                     {"m.q_scale", {"I32", {2, 1}}},
                     {"m.q_scale_max", {"F16", {2}}},
                     {"m.q_invperm", {"I32", {48}, order}}};
  const auto with_groups = [](const std::string& bytes) {
    return Tensors{{"m.q_groups", {"I16", {4}, bytes}}};
  };
  const std::string name = "\"m.q_groups\" ";
  expect_refused(
      of_method(StoredMethod::kExl2),
      good,
      "m.weight",
      {
          {"no groups", {}, "m.q_groups", "tensor \"m.q_groups\" is missing"},
          {"bits", with_groups({"\7\0\0\0\2\0\4\0", 8}), "", name + "gives group 0 7 bits"},
          {"first", with_groups({"\4\0\1\0\2\0\4\0", 8}), "", name + "gives group 0 a line"},
          {"far", with_groups({"\4\0\0\0\2\0\5\0", 8}), "", name + "gives group 1 lines 5 to 5"},
          {"back", with_groups({"\4\0\0\0\2\0\0\0", 8}), "", name + "gives group 0 lines 0 to 0"},
          {"room", with_groups({"\10\0\0\0\2\0\4\0", 8}), "", name + "has room for 32 of 48"},
          {"order", {{"m.q_invperm", {"I32", {48}, twice}}}, "", "\"m.q_invperm\" is no order"},
          {"inputs",
           {{"m.q_invperm", {"I32", {96}}}},
           "",
           "has more inputs than the codes hold: 96"},
          {"scales", {{"m.q_scale", {"I32", {2, 2}}}}, "", "\"m.q_scale\" has shape [2, 2]"},
          {"count", {{"m.q_groups", {"I16", {5}}}}, "", "\"m.q_groups\" has shape [5]"},
      });
}

TEST(StoredQuant, RefusesFp8PartsByName) {
  const Tensors good{{"m.weight", {"F8_E4M3", {6, 8}}},
                     {"m.weight_scale", {"F32", {6, 1}}},
                     {"m.input_scale", {"F32", {}}},
                     {"plain.weight", {"BF16", {2, 2}}}};
  const StoredQuant quant = of_method(StoredMethod::kFp8);
  expect_refused(
      quant,
      good,
      "m.weight",
      {
          {"no scale", {}, "m.weight_scale", "tensor \"m.weight_scale\" is missing"},
          {"no weight", {}, "m.weight", "tensor \"m.weight\" is missing"},
          {"type", {{"m.weight", {"BF16", {6, 8}}}}, "", "\"m.weight\" has type BF16, not F8_E4M3"},
          {"scale", {{"m.weight_scale", {"F32", {5}}}}, "", "\"m.weight_scale\" has shape [5]"},
          {"surplus",
           {{"m.weight_scale_inv", {"F32", {1, 1}}}},
           "",
           "is not what weight_block_size"},
      });
  StoredQuant blocks = quant;
  blocks.block_rows = 4;
  blocks.block_inputs = 4;
  expect_refused(blocks,
                 {{"m.weight", {"F8_E4M3", {6, 8}}}, {"m.weight_scale_inv", {"F32", {2, 2}}}},
                 "m.weight",
                 {{"blocks", {{"m.weight_scale_inv", {"F32", {1, 2}}}}, "", "ask for [2, 2]"}});
}

std::string int64s(std::uint64_t a, std::uint64_t b) {
  std::string out;
  for (const std::uint64_t value : {a, b}) {
    for (unsigned i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFFU));
  }
  return out;
}

TEST(StoredQuant, RefusesCompressedTensorsPartsByName) {
  StoredQuant quant = of_method(StoredMethod::kCompressedTensors);
  quant.groups = {{.is_packed = true, .symmetric = false, .bits = 4, .group_size = 16}};
  const Tensors good{{"m.weight_packed", {"I32", {9, 4}}},
                     {"m.weight_scale", {"BF16", {9, 2}}},
                     {"m.weight_zero_point", {"I32", {2, 2}}},
                     {"m.weight_shape", {"I64", {2}, int64s(9, 31)}},
                     {"m.weight_g_idx", {"I32", {31}}}};
  const auto with_shape = [](std::uint64_t n, std::uint64_t k) {
    return Tensors{{"m.weight_shape", {"I64", {2}, int64s(n, k)}}};
  };
  const std::string shape = "\"m.weight_shape\" says ";
  expect_refused(
      quant,
      good,
      "m.weight",
      {
          {"no shape", {}, "m.weight_shape", "tensor \"m.weight_shape\" is missing"},
          {"no zeros", {}, "m.weight_zero_point", "tensor \"m.weight_zero_point\" is missing"},
          {"outputs", with_shape(8, 31), "", shape + "[8, 31]"},
          {"inputs", with_shape(9, 33), "", shape + "[9, 33]"},
          {"huge", with_shape(9, ~std::uint64_t{0}), "", shape + "[9, 18446744073709551615]"},
          {"few", with_shape(9, 24), "", shape + "[9, 24]"},
          {"zeros", {{"m.weight_zero_point", {"I32", {1, 2}}}}, "", "ask for [2, 2]"},
          {"group",
           {{"m.weight_g_idx", {"I32", {31}, "\2"}}},
           "",
           "\"m.weight_g_idx\" holds a group"},
          {"both", {{"m.weight", {"BF16", {9, 31}}}}, "", "\"m.weight\" is one part too many"},
      });
  quant.groups[0].symmetric = true;
  EXPECT_THAT(read_all_of(quant, good, "m.weight").message(), HasSubstr("weights are symmetric"));
}

TEST(StoredQuant, RefusesBitsandbytesPartsByName) {
  StoredQuant quant = of_method(StoredMethod::kBitsandbytes);
  quant.code = "nf4";
  const auto with_state = [](const std::string& json) {
    return TestTensor{"U8", {json.size()}, json};
  };
  const std::string name = "m.weight.quant_state.bitsandbytes__nf4";
  const std::string state =
      R"({"quant_type":"nf4","blocksize":4,"shape":[3,5],"nested_blocksize":2,"nested_offset":0.5})";
  const Tensors good{{"m.weight", {"U8", {8, 1}}},
                     {"m.weight.absmax", {"U8", {4}}},
                     {"m.weight.quant_map", {"F32", {16}}},
                     {"m.weight.nested_absmax", {"F32", {2}}},
                     {"m.weight.nested_quant_map", {"F32", {256}}},
                     {name, with_state(state)}};
  const auto changed = [&](const std::string& json) { return Tensors{{name, with_state(json)}}; };
  expect_refused(
      quant,
      good,
      "m.weight",
      {
          {"no state", {}, name, "tensor \"" + name + "\" is missing"},
          {"no map", {}, "m.weight.quant_map", "\"m.weight.quant_map\" is missing"},
          {"no JSON", changed("{"), "", "is no JSON"},
          {"type", changed(R"({"quant_type":"fp4"})"), "", "does not say quant_type nf4"},
          {"no shape", changed(R"({"quant_type":"nf4"})"), "", "names no shape"},
          {"shape",
           changed(R"({"quant_type":"nf4","shape":[3,6],"blocksize":4})"),
           "",
           "a shape that the 8 bytes of codes do not hold"},
          {"overflow",
           changed(R"({"quant_type":"nf4","shape":[4294967296,4294967296],"blocksize":4})"),
           "",
           "a shape that the 8 bytes of codes do not hold"},
          {"block", changed(R"({"quant_type":"nf4","shape":[3,5]})"), "", "names no blocksize"},
          {"absmax", {{"m.weight.absmax", {"U8", {3}}}}, "", "\"m.weight.absmax\" has shape [3]"},
          {"nested", {{"m.weight.nested_absmax", {"F32", {1}}}}, "", "ask for [2]"},
          {"map", {{"m.weight.quant_map", {"F32", {15}}}}, "", "ask for [16]"},
      });
  StoredQuant int8 = of_method(StoredMethod::kBitsandbytes);
  int8.bits = 8;
  expect_refused(
      int8,
      {{"m.weight", {"I8", {3, 5}}}, {"m.SCB", {"F32", {3}}}, {"m.weight_format", {"U8", {}}}},
      "m.weight",
      {
          {"no scales", {}, "m.SCB", "tensor \"m.SCB\" is missing"},
          {"scales", {{"m.SCB", {"F32", {5}}}}, "", "\"m.SCB\" has shape [5]"},
          {"layout", {{"m.weight_format", {"U8", {}, "\1"}}}, "", "is 1, only 0 (rows)"},
      });
}

TEST(StoredQuant, RefusesMxfp4PartsByName) {
  const Tensors good{{"m_blocks", {"U8", {2, 3, 1, 16}}}, {"m_scales", {"U8", {2, 3, 1}}}};
  expect_refused(
      of_method(StoredMethod::kMxfp4),
      good,
      "m",
      {
          {"no scales", {}, "m_scales", "tensor \"m_scales\" is missing"},
          {"no codes", {}, "m_blocks", "tensor \"m_blocks\" is missing"},
          {"blocks", {{"m_blocks", {"U8", {2, 3, 1, 8}}}}, "", "not [.., outputs, blocks, 16]"},
          {"scales", {{"m_scales", {"U8", {2, 3, 2}}}}, "", "ask for [2, 3, 1]"},
          {"empty", {{"m_blocks", {"U8", {2, 0, 1, 16}}}}, "", "not [.., outputs, blocks"},
      });
}

}  // namespace
}  // namespace coxswain::weights
