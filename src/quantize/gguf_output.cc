#include "quantize/gguf_output.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "quantize/block_encoder.h"
#include "weights/gguf_blocks.h"

namespace coxswain::quantize {
namespace {

constexpr std::uint64_t kSmall = 32;
constexpr std::uint64_t kSuper = 256;
constexpr std::uint64_t kRowsAtOnce = 256;

struct Mix {
  std::string_view name;
  std::string_view main;        // of most matrices
  std::uint32_t file_type = 0;  // general.file_type
};
constexpr std::array kMixes{Mix{"Q8_0", "Q8_0", 7},
                            Mix{"Q4_0", "Q4_0", 2},
                            Mix{"Q4_K_M", "Q4_K", 15},
                            Mix{"F16", "F16", 1},
                            Mix{"BF16", "BF16", 32}};

const Mix* find_mix(std::string_view name) {
  const auto* const found = std::ranges::find(kMixes, name, &Mix::name);
  return found == kMixes.end() ? nullptr : &*found;
}

std::optional<std::uint32_t> layer_of(std::string_view tensor) {
  constexpr std::string_view kBlock = "blk.";
  if (!tensor.starts_with(kBlock)) return std::nullopt;
  std::uint32_t out = 0;
  const auto read =
      std::from_chars(tensor.data() + kBlock.size(), tensor.data() + tensor.size(), out);
  return read.ec == std::errc() ? std::optional(out) : std::nullopt;
}

bool is_weight_matrix(const gguf::NewTensor& tensor) {
  const std::string_view name = tensor.name;
  return tensor.shape.size() >= 2 && name.ends_with(".weight") && !name.ends_with("_norm.weight") &&
         name.find("ffn_gate_inp") == std::string_view::npos;
}

// llama.cpp's rule for where more bits pay: the first and the last eighth of the layers, and every third between.
bool has_more_bits(std::uint32_t layer, std::uint32_t n_layers) {
  return layer < n_layers / 8 || layer >= 7 * n_layers / 8 || (layer - n_layers / 8) % 3 == 2;
}

std::string_view type_in_q4_k_m(const GgufSource& source, std::string_view name) {
  const bool is_eight_experts = source.n_experts == 8;
  const bool has_more = has_more_bits(layer_of(name).value_or(0), source.n_layers);
  const auto is = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (is("attn_v.weight")) return is_eight_experts ? "Q8_0" : has_more ? "Q6_K" : "Q4_K";
  if (is("attn_k.weight") && is_eight_experts) return "Q8_0";
  if (is("attn_output.weight") && is_eight_experts) return "Q5_K";
  if (is("attn_qkv.weight")) return "Q5_K";
  if (is("ffn_down") && has_more) return "Q6_K";
  return "Q4_K";
}

// What takes the place of a type whose blocks are longer than rows are whole.
std::string_view fitting(std::string_view type, std::uint64_t width) {
  if (gguf::find_tensor_type(type)->block_values == 1) return type;
  if (width % kSuper != 0) {
    if (type == "Q4_K") type = "Q5_0";
    if (type == "Q5_K" || type == "Q6_K") type = "Q8_0";
  }
  return width % kSmall == 0 ? type : "F16";
}

struct Planned {
  const GgufSourceTensor* from;
  gguf::NewTensor to;
};

Result<std::vector<Planned>> plan(const GgufSource& source, std::string_view mix) {
  std::vector<Planned> out;
  for (const GgufSourceTensor& each : source.tensors) {
    const std::string_view own = each.tensor.type->name;
    if (is_weight_matrix(each.tensor) && own != "F32" && own != "F16" && own != "BF16")
      return invalid_argument("tensor \"" + each.tensor.name + "\" is stored as " +
                              std::string(own) +
                              " already; quantise the file of floats that it was made from");
    Planned planned{&each, each.tensor};
    planned.to.type = gguf::find_tensor_type(type_in_mix(mix, source, each.tensor));
    out.push_back(std::move(planned));
  }
  return out;
}

std::string front_of(const GgufSource& source,
                     const std::vector<Planned>& tensors,
                     const Mix& mix) {
  gguf::KeyList keys = source.keys;
  keys.add_u32("general.file_type", mix.file_type);
  keys.add_u32("general.quantization_version", 2);
  std::vector<gguf::NewTensor> to;
  to.reserve(tensors.size());
  for (const Planned& tensor : tensors) to.push_back(tensor.to);
  return gguf::front_of(keys, to);
}

class TensorWriter {
 public:
  TensorWriter(base::AtomicFile& file, base::ThreadPool& pool) : file_(file), pool_(pool) {}

  Status write(const Planned& tensor) {
    const gguf::NewTensor& from = tensor.from->tensor;
    const std::uint64_t n_rows = from.n_rows();
    const bool is_same = tensor.to.type == from.type;
    for (std::uint64_t row = 0; row < n_rows; row += kRowsAtOnce) {
      const std::uint64_t n = std::min(kRowsAtOnce, n_rows - row);
      from_.resize(n * from.row_bytes());
      COXSWAIN_RETURN_IF_ERROR(tensor.from->read(row, from_));
      if (!is_same) encode(from, tensor.to, n);
      const auto& bytes = is_same ? from_ : to_;
      COXSWAIN_RETURN_IF_ERROR(
          file_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    }
    const std::uint64_t over = tensor.to.n_bytes() % gguf::kWrittenAlignment;
    return over == 0 ? Status() : file_.write(std::string(gguf::kWrittenAlignment - over, '\0'));
  }

 private:
  // Rows in from_, of floats, to to_.
  void encode(const gguf::NewTensor& from, const gguf::NewTensor& to, std::uint64_t n) {
    const weights::DecodeBlock decode = weights::find_block_decoder(from.type->name);
    const EncodeBlock put = find_block_encoder(to.type->name);
    const std::size_t element = from.type->block_bytes;
    const std::uint64_t width = from.shape.back();
    const std::uint64_t row_bytes = to.row_bytes();
    to_.resize(n * row_bytes);
    pool_.run(n, [&](std::size_t row, std::size_t) {
      std::vector<float> values(width);
      for (std::size_t i = 0; i < values.size(); ++i)
        decode(from_.data() + (row * width + i) * element, &values[i]);
      std::byte* at = to_.data() + row * row_bytes;
      for (std::size_t i = 0; i < values.size(); i += to.type->block_values) {
        put(values.data() + i, at);
        at += to.type->block_bytes;
      }
    });
  }

  base::AtomicFile& file_;
  base::ThreadPool& pool_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

}  // namespace

bool is_gguf_mix(std::string_view name) {
  return find_mix(name) != nullptr;
}

std::string_view type_in_mix(std::string_view mix,
                             const GgufSource& source,
                             const gguf::NewTensor& tensor) {
  if (!is_weight_matrix(tensor)) return tensor.type->name;
  const auto is_head = [](const GgufSourceTensor& each) {
    return each.tensor.name == "output.weight";
  };
  const bool has_output = std::ranges::any_of(source.tensors, is_head);
  std::string_view type = find_mix(mix)->main;
  const bool is_blocks = gguf::find_tensor_type(type)->block_values > 1;
  if (tensor.name == "output.weight" || (!has_output && tensor.name == "token_embd.weight")) {
    if (is_blocks && type != "Q8_0") type = "Q6_K";
  } else if (mix == "Q4_K_M") {
    type = type_in_q4_k_m(source, tensor.name);
  }
  return fitting(type, tensor.shape.back());
}

Status write_gguf(const GgufSource& source,
                  const std::string& to,
                  std::string_view mix,
                  base::ThreadPool& pool) {
  COXSWAIN_ASSIGN_OR_RETURN(const auto tensors, plan(source, mix));
  COXSWAIN_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::create(to));
  COXSWAIN_RETURN_IF_ERROR(file.write(front_of(source, tensors, *find_mix(mix))));
  TensorWriter writer(file, pool);
  for (const Planned& tensor : tensors) COXSWAIN_RETURN_IF_ERROR(writer.write(tensor));
  COXSWAIN_RETURN_IF_ERROR(file.commit());
  std::error_code error;
  using std::filesystem::perms;
  std::filesystem::permissions(
      to, perms::group_read | perms::others_read, std::filesystem::perm_options::add, error);
  return error ? Status(Code::kResourceExhausted, to + ": " + error.message()) : Status();
}

}  // namespace coxswain::quantize
