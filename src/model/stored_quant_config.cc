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
  refuse_unless(reader, field, format == "gptq" || format == "gptq_v2");
  refuse_unless(reader, "is_marlin_format", !reader.flag_or("is_marlin_format", false));
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

using ReadMethod = StoredQuant (*)(ConfigReader& reader, const json::Value& value);

struct MethodRow {
  std::string_view name;
  ReadMethod read = nullptr;
};

constexpr std::array kMethods{
    MethodRow{"gptq", read_gptq},
    MethodRow{"awq", read_awq},
};

// Values of --quantize.
constexpr std::array<std::string_view, 2> kQuantizeNames{"gptq", "awq"};

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
  return std::string(weights::name_of(quant.method));
}

bool is_stored_quantize_name(std::string_view name) {
  return std::ranges::find(kQuantizeNames, name) != kQuantizeNames.end();
}

}  // namespace coxswain::model
