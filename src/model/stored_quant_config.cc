#include "model/stored_quant_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "model/config_reader.h"
#include "model/model.h"

namespace coxswain::model {
namespace {

using weights::StoredMethod;
using weights::StoredQuant;

constexpr std::uint32_t kGroupMax = 1U << 20;
constexpr std::size_t kPatternsMax = 65536;

// Fields that say how weights were made or which kernels to take, not what they are.
constexpr std::array<std::string_view, 33> kOfMaking{"backend",
                                                     "batch_size",
                                                     "block_name_to_quantize",
                                                     "cache_block_outputs",
                                                     "calibration",
                                                     "damp_auto_increment",
                                                     "damp_percent",
                                                     "dataset",
                                                     "disable_exllama",
                                                     "do_fuse",
                                                     "exllama_config",
                                                     "fuse_max_seq_len",
                                                     "max_input_length",
                                                     "meta",
                                                     "model_file_base_name",
                                                     "model_name_or_path",
                                                     "model_seqlen",
                                                     "module_name_preceding_first_block",
                                                     "modules_in_block_to_quantize",
                                                     "modules_to_fuse",
                                                     "mse",
                                                     "pad_token_id",
                                                     "quant_method",
                                                     "quantizer",
                                                     "static_groups",
                                                     "tokenizer",
                                                     "true_sequential",
                                                     "use_cuda_fp16",
                                                     "use_exllama",
                                                     "version",
                                                     "is_marlin_format",
                                                     "pack_dtype",
                                                     "lm_head"};

void refuse_unknown(ConfigReader& reader,
                    const json::Value& value,
                    std::span<const std::string_view> known) {
  for (const auto& [field, entry] : value.as_object()) {
    if (entry.is_null() || std::ranges::find(known, field) != known.end() ||
        std::ranges::find(kOfMaking, field) != kOfMaking.end())
      continue;
    reader.unsupported(field, "(" + json::write(entry) + ") is not known");
  }
}

// -1 stands for one group.
std::uint64_t read_group_size(ConfigReader& reader, std::string_view field) {
  const json::Value* const value = reader.get(field);
  if (value == nullptr || value->to_int64() == -1) return 0;
  return reader.count(field, 1, kGroupMax);
}

std::uint32_t read_bits(ConfigReader& reader,
                        std::string_view field,
                        std::span<const std::uint32_t> known) {
  const std::uint32_t bits = reader.count_or(field, 1, 64, 4);
  if (std::ranges::find(known, bits) == known.end())
    reader.unsupported(field, "(" + std::to_string(bits) + ") is not supported");
  return bits;
}

void refuse_unless(ConfigReader& reader, std::string_view field, bool holds) {
  const json::Value* const value = reader.get(field);
  if (value != nullptr && !holds)
    reader.unsupported(field, "(" + json::write(*value) + ") is not supported");
}

// Marlin holds 4 bits in order of the inputs.
void read_marlin_into(ConfigReader& reader, StoredQuant& out) {
  out.method = StoredMethod::kMarlin;
  refuse_unless(reader, "bits", out.bits == 4);
  refuse_unless(reader, "desc_act", !reader.flag_or("desc_act", false));
}

StoredQuant read_marlin(ConfigReader& reader, const json::Value& value) {
  constexpr std::array<std::string_view, 5> kFields{
      "bits", "group_size", "sym", "desc_act", "checkpoint_format"};
  constexpr std::array<std::uint32_t, 1> kBits{4};
  refuse_unknown(reader, value, kFields);
  StoredQuant out;
  out.bits = read_bits(reader, "bits", kBits);
  out.group_size = read_group_size(reader, "group_size");
  refuse_unless(reader, "sym", reader.flag_or("sym", true));
  refuse_unless(
      reader, "checkpoint_format", reader.text_or("checkpoint_format", "marlin") == "marlin");
  read_marlin_into(reader, out);
  return out;
}

StoredQuant read_gptq(ConfigReader& reader, const json::Value& value) {
  constexpr std::array<std::string_view, 8> kFields{"bits",
                                                    "group_size",
                                                    "sym",
                                                    "desc_act",
                                                    "checkpoint_format",
                                                    "format",
                                                    "dynamic",
                                                    "act_group_aware"};
  constexpr std::array<std::uint32_t, 4> kBits{2, 3, 4, 8};
  refuse_unknown(reader, value, kFields);
  StoredQuant out;
  out.method = StoredMethod::kGptq;
  out.bits = read_bits(reader, "bits", kBits);
  out.group_size = read_group_size(reader, "group_size");
  reader.flag_or("sym", false);
  reader.flag_or("desc_act", false);
  const std::string_view field = reader.has("format") ? "format" : "checkpoint_format";
  const std::string format = reader.text_or(field, "gptq");
  const bool is_marlin = format == "marlin" || reader.flag_or("is_marlin_format", false);
  refuse_unless(reader, field, is_marlin || format == "gptq" || format == "gptq_v2");
  if (is_marlin) read_marlin_into(reader, out);
  out.zeros_less_one = format == "gptq";
  const json::Value* const dynamic = reader.get("dynamic");
  refuse_unless(reader,
                "dynamic",
                dynamic == nullptr || (dynamic->is_object() && dynamic->as_object().empty()));
  return out;
}

StoredQuant read_awq(ConfigReader& reader, const json::Value& value) {
  constexpr std::array<std::string_view, 6> kFields{
      "bits", "w_bit", "group_size", "q_group_size", "zero_point", "modules_to_not_convert"};
  constexpr std::array<std::uint32_t, 1> kBits{4};
  refuse_unknown(reader, value, kFields);
  StoredQuant out;
  out.method = StoredMethod::kAwq;
  out.bits = read_bits(reader, reader.has("w_bit") ? "w_bit" : "bits", kBits);
  out.group_size =
      read_group_size(reader, reader.has("q_group_size") ? "q_group_size" : "group_size");
  refuse_unless(reader, "zero_point", reader.flag_or("zero_point", true));
  const std::string version = reader.text_or("version", "gemm");
  refuse_unless(reader, "version", version == "gemm" || version == "GEMM");
  out.plain_modules = reader.texts_or_empty("modules_to_not_convert", kPatternsMax);
  return out;
}

StoredQuant read_exl2(ConfigReader& reader, const json::Value& value) {
  // The tensors say how many bits each group has.
  constexpr std::array<std::string_view, 2> kFields{"bits", "head_bits"};
  refuse_unknown(reader, value, kFields);
  StoredQuant out;
  out.method = StoredMethod::kExl2;
  return out;
}

StoredQuant read_mxfp4(ConfigReader& reader, const json::Value& value) {
  constexpr std::array<std::string_view, 1> kFields{"modules_to_not_convert"};
  refuse_unknown(reader, value, kFields);
  StoredQuant out;
  out.method = StoredMethod::kMxfp4;
  out.plain_modules = reader.texts_or_empty("modules_to_not_convert", kPatternsMax);
  return out;
}

StoredQuant read_fp8(ConfigReader& reader, const json::Value& value) {
  constexpr std::array<std::string_view, 8> kFields{"activation_scheme",
                                                    "activation_scale_ub",
                                                    "fmt",
                                                    "scale_fmt",
                                                    "weight_block_size",
                                                    "ignored_layers",
                                                    "modules_to_not_convert",
                                                    "kv_cache_scheme"};
  refuse_unknown(reader, value, kFields);
  StoredQuant out;
  out.method = StoredMethod::kFp8;
  refuse_unless(reader, "fmt", reader.text_or("fmt", "e4m3") == "e4m3");
  if (reader.has("weight_block_size")) {
    const auto block = reader.numbers("weight_block_size", 2, 1, kGroupMax);
    out.block_rows = static_cast<std::uint64_t>(block[0]);
    out.block_inputs = static_cast<std::uint64_t>(block[1]);
  }
  out.plain_modules = reader.texts_or_empty("modules_to_not_convert", kPatternsMax);
  for (std::string& name : reader.texts_or_empty("ignored_layers", kPatternsMax))
    out.plain_modules.push_back(std::move(name));
  return out;
}

StoredQuant read_bitsandbytes(ConfigReader& reader, const json::Value& value) {
  constexpr std::array<std::string_view, 13> kFields{"_load_in_4bit",
                                                     "_load_in_8bit",
                                                     "load_in_4bit",
                                                     "load_in_8bit",
                                                     "bnb_4bit_compute_dtype",
                                                     "bnb_4bit_quant_storage",
                                                     "bnb_4bit_quant_type",
                                                     "bnb_4bit_use_double_quant",
                                                     "llm_int8_enable_fp32_cpu_offload",
                                                     "llm_int8_has_fp16_weight",
                                                     "llm_int8_skip_modules",
                                                     "llm_int8_threshold",
                                                     "target_parameters"};
  refuse_unknown(reader, value, kFields);
  StoredQuant out;
  out.method = StoredMethod::kBitsandbytes;
  const bool is_4bit = reader.flag_or("load_in_4bit", false);
  if (is_4bit == reader.flag_or("load_in_8bit", false))
    reader.fail("load_in_4bit", "or load_in_8bit must be true, and only one");
  out.bits = is_4bit ? 4 : 8;
  if (is_4bit) {
    out.code = reader.text_or("bnb_4bit_quant_type", "fp4");
    refuse_unless(reader, "bnb_4bit_quant_type", out.code == "nf4" || out.code == "fp4");
  }
  out.plain_modules = reader.texts_or_empty("llm_int8_skip_modules", kPatternsMax);
  return out;
}

// One of config_groups; `packed` where codes share words.
weights::StoredGroup read_group(ConfigReader& reader, const json::Value& value, bool packed) {
  constexpr std::array<std::string_view, 13> kFields{"num_bits",
                                                     "type",
                                                     "strategy",
                                                     "group_size",
                                                     "symmetric",
                                                     "dynamic",
                                                     "observer",
                                                     "observer_kwargs",
                                                     "actorder",
                                                     "block_structure",
                                                     "scale_dtype",
                                                     "zp_dtype",
                                                     "args"};
  constexpr std::array<std::uint32_t, 2> kBits{4, 8};
  refuse_unknown(reader, value, kFields);
  weights::StoredGroup out;
  out.is_packed = packed;
  out.bits = read_bits(reader, "num_bits", kBits);
  refuse_unless(reader, "num_bits", packed || out.bits == 8);
  const std::string type = reader.text_or("type", "int");
  out.is_float = type == "float";
  refuse_unless(reader, "type", type == "int" || (out.is_float && !packed));
  out.symmetric = reader.flag_or("symmetric", true);
  const std::string strategy = reader.text_or("strategy", "");
  if (strategy == "group") {
    out.group_size = reader.count("group_size", 1, kGroupMax);
  } else if (strategy == "block" && !packed) {
    const auto block = reader.numbers("block_structure", 2, 1, kGroupMax);
    out.block_rows = static_cast<std::uint64_t>(block[0]);
    out.block_inputs = static_cast<std::uint64_t>(block[1]);
  } else {
    const bool is_known = strategy == "channel" || (strategy == "tensor" && !packed);
    refuse_unless(reader, "strategy", is_known);
    if (!reader.has("strategy")) reader.fail("strategy", "is missing");
  }
  return out;
}

void read_groups(ConfigReader& reader, bool packed, StoredQuant& out) {
  constexpr std::array<std::string_view, 5> kFields{
      "targets", "weights", "input_activations", "output_activations", "format"};
  ConfigReader groups = reader.object("config_groups");
  const json::Value* const list = reader.get("config_groups");
  reader.join(groups);
  if (list == nullptr || !list->is_object() || list->as_object().size() > kPatternsMax) return;
  for (const auto& [name, value] : list->as_object()) {
    ConfigReader group = groups.object(name);
    reader.join(groups);
    if (!value.is_object()) return;
    refuse_unknown(group, value, kFields);
    refuse_unless(group, "output_activations", false);
    ConfigReader parameters = group.object("weights");
    if (const json::Value* const found = group.get("weights");
        found != nullptr && found->is_object())
      out.groups.push_back(read_group(parameters, *found, packed));
    group.join(parameters);
    reader.join(group);
  }
  if (out.groups.empty()) reader.fail("config_groups", "is empty");
}

bool is_empty_or_dense(const json::Value& object) {
  const json::Value* const format = object.find("format");
  return object.as_object().empty() ||
         (format != nullptr && format->is_string() && format->as_string() == "dense");
}

// Whether the cache is to hold 8-bit floats. The scales, where there are some, are tensors.
bool read_float8_cache(ConfigReader& reader) {
  constexpr std::string_view kField = "kv_cache_scheme";
  if (!reader.has(kField)) return false;
  const json::Value* const found = reader.get(kField);
  ConfigReader scheme = reader.object(kField);
  reader.join(scheme);
  if (found == nullptr || !found->is_object()) return false;
  constexpr std::array<std::uint32_t, 1> kBits{8};
  read_bits(scheme, "num_bits", kBits);
  refuse_unless(scheme, "type", scheme.text_or("type", "int") == "float");
  refuse_unless(scheme, "strategy", scheme.text_or("strategy", "tensor") == "tensor");
  refuse_unless(scheme, "symmetric", scheme.flag_or("symmetric", true));
  reader.join(scheme);
  return true;
}

StoredQuant read_compressed_tensors(ConfigReader& reader, const json::Value& value) {
  constexpr std::array<std::string_view, 8> kFields{"format",
                                                    "quantization_status",
                                                    "ignore",
                                                    "global_compression_ratio",
                                                    "kv_cache_scheme",
                                                    "config_groups",
                                                    "sparsity_config",
                                                    "transform_config"};
  refuse_unknown(reader, value, kFields);
  StoredQuant out;
  out.method = StoredMethod::kCompressedTensors;
  const std::string format = reader.text_or("format", "");
  const bool packed = format == "pack-quantized";
  if (!reader.has("format")) reader.fail("format", "is missing");
  refuse_unless(reader,
                "format",
                packed || format == "int-quantized" || format == "float-quantized" ||
                    format == "naive-quantized");
  const std::string status = reader.text_or("quantization_status", "compressed");
  refuse_unless(reader, "quantization_status", status == "compressed" || status == "frozen");
  for (const char* field : {"sparsity_config", "transform_config"}) {
    const json::Value* const found = reader.get(field);
    refuse_unless(
        reader, field, found != nullptr && found->is_object() && is_empty_or_dense(*found));
  }
  out.plain_modules = reader.texts_or_empty("ignore", kPatternsMax);
  out.float8_cache = read_float8_cache(reader);
  read_groups(reader, packed, out);
  return out;
}

using ReadMethod = StoredQuant (*)(ConfigReader& reader, const json::Value& value);

struct MethodRow {
  std::string_view name;
  ReadMethod read = nullptr;
};

constexpr std::array kMethods{
    MethodRow{"gptq", read_gptq},
    MethodRow{"awq", read_awq},
    MethodRow{"marlin", read_marlin},
    MethodRow{"exl2", read_exl2},
    MethodRow{"compressed-tensors", read_compressed_tensors},
    MethodRow{"fp8", read_fp8},
    MethodRow{"fbgemm_fp8", read_fp8},
    MethodRow{"bitsandbytes", read_bitsandbytes},
    MethodRow{"mxfp4", read_mxfp4},
};

// Values of --quantize.
constexpr std::array<std::string_view, 9> kQuantizeNames{"gptq",
                                                         "awq",
                                                         "marlin",
                                                         "exl2",
                                                         "compressed-tensors",
                                                         "fp8",
                                                         "bitsandbytes",
                                                         "bitsandbytes-nf4",
                                                         "bitsandbytes-fp4"};

// Files without quant_method are of two programs.
std::string guess_method(const ConfigReader& reader) {
  return reader.has("zero_point") || reader.has("w_bit") ? "awq" : "gptq";
}

}  // namespace

Result<StoredQuant> parse_stored_quant(const json::Value& value, const std::string& where) {
  if (!value.is_object()) return invalid_argument(where + " must be an object");
  ConfigReader reader(value, where + ".");
  const std::string method = reader.text_or("quant_method", guess_method(reader));
  COXSWAIN_RETURN_IF_ERROR(reader.status());
  for (const MethodRow& row : kMethods) {
    if (row.name != method) continue;
    StoredQuant out = row.read(reader, value);
    COXSWAIN_RETURN_IF_ERROR(reader.status());
    return out;
  }
  reader.unsupported("quant_method", "\"" + method + "\" is not supported");
  return reader.status();
}

Result<StoredQuant> read_stored_quant(const std::string& model_dir, const json::Value& config) {
  for (const char* field : {"quantization_config", "compression_config"}) {
    const json::Value* const value = config.find(field);
    if (value != nullptr && !value->is_null())
      return parse_stored_quant(*value, std::string("config.json: ") + field);
  }
  for (const char* name : {"quantize_config.json", "quant_config.json"}) {
    const std::string path = model_dir + "/" + name;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    COXSWAIN_ASSIGN_OR_RETURN(const json::Value value, json::parse_file(path, kConfigFileBytesMax));
    return parse_stored_quant(value, name);
  }
  return StoredQuant{};
}

std::string quantize_name(const StoredQuant& quant) {
  const std::string name(weights::name_of(quant.method));
  return quant.code.empty() ? name : name + "-" + quant.code;
}

bool is_stored_quantize_name(std::string_view name) {
  return std::ranges::find(kQuantizeNames, name) != kQuantizeNames.end();
}

}  // namespace coxswain::model
