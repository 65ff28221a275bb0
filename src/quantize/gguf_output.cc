#include "quantize/gguf_output.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "quantize/block_encoder.h"
#include "weights/gguf_blocks.h"
#include "weights/tensor_file.h"

namespace coxswain::quantize {
namespace {

constexpr std::uint64_t kAlignment = 32;
constexpr std::uint64_t kSmall = 32;
constexpr std::uint64_t kSuper = 256;
constexpr std::uint64_t kRowsAtOnce = 256;

struct Mix {
  std::string_view name;
  std::string_view main;        // of most matrices
  std::uint32_t file_type = 0;  // general.file_type
};
constexpr std::array kMixes{
    Mix{"Q8_0", "Q8_0", 7}, Mix{"Q4_0", "Q4_0", 2}, Mix{"Q4_K_M", "Q4_K", 15}};

const Mix* find_mix(std::string_view name) {
  const auto* const found = std::ranges::find(kMixes, name, &Mix::name);
  return found == kMixes.end() ? nullptr : &*found;
}

const gguf::TensorType& type_of(std::string_view name) {
  for (std::uint32_t id = 0;; ++id) {
    const gguf::TensorType* const type = gguf::find_tensor_type(id);
    if (type != nullptr && type->name == name) return *type;
  }
}

double number_of(const gguf::Header& header, std::string_view key) {
  return header.number(std::string(header.text("general.architecture")) + "." + std::string(key))
      .value_or(0);
}

std::optional<std::uint32_t> layer_of(std::string_view tensor) {
  constexpr std::string_view kBlock = "blk.";
  if (!tensor.starts_with(kBlock)) return std::nullopt;
  std::uint32_t out = 0;
  const auto read =
      std::from_chars(tensor.data() + kBlock.size(), tensor.data() + tensor.size(), out);
  return read.ec == std::errc() ? std::optional(out) : std::nullopt;
}

bool is_weight_matrix(const gguf::TensorInfo& tensor) {
  const std::string_view name = tensor.name;
  return tensor.shape.size() >= 2 && name.ends_with(".weight") && !name.ends_with("_norm.weight") &&
         name.find("ffn_gate_inp") == std::string_view::npos;
}

// llama.cpp's rule for where more bits pay: the first and the last eighth of the layers, and every third between.
bool has_more_bits(std::uint32_t layer, std::uint32_t n_layers) {
  return layer < n_layers / 8 || layer >= 7 * n_layers / 8 || (layer - n_layers / 8) % 3 == 2;
}

std::string_view type_in_q4_k_m(const gguf::Header& header, std::string_view name) {
  const auto n_layers = static_cast<std::uint32_t>(number_of(header, "block_count"));
  const bool is_eight_experts = number_of(header, "expert_count") == 8;
  const bool has_more = has_more_bits(layer_of(name).value_or(0), n_layers);
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
  if (width % kSuper != 0) {
    if (type == "Q4_K") type = "Q5_0";
    if (type == "Q5_K" || type == "Q6_K") type = "Q8_0";
  }
  return width % kSmall == 0 ? type : "F16";
}

class Bytes {
 public:
  template <typename T>
  void number(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void text(std::string_view value) {
    number<std::uint64_t>(value.size());
    out_ += value;
  }
  void value(const gguf::Value& value) {
    if (value.is_array) {
      number(static_cast<std::uint32_t>(gguf::ValueType::kArray));
      number(static_cast<std::uint32_t>(value.type));
      number<std::uint64_t>(value.n);
      for (const std::string_view each : value.texts) text(each);
      if (value.is_number()) out_ += value.bytes;
      return;
    }
    number(static_cast<std::uint32_t>(value.type));
    if (value.is_text()) {
      text(value.bytes);
    } else {
      out_ += value.bytes;
    }
  }
  void u32_key(std::string_view key, std::uint32_t value) {
    text(key);
    number(static_cast<std::uint32_t>(gguf::ValueType::kUint32));
    number(value);
  }
  void align() { out_.resize((out_.size() + kAlignment - 1) / kAlignment * kAlignment); }
  const std::string& get() const { return out_; }

 private:
  std::string out_;
};

struct Planned {
  const gguf::TensorInfo* from;
  const gguf::TensorType* type;
  std::uint64_t n_rows = 0;
  std::uint64_t width = 0;

  std::uint64_t n_bytes() const {
    return n_rows * (width / type->block_values) * type->block_bytes;
  }
};

Result<std::vector<Planned>> plan(const gguf::Header& header, std::string_view mix) {
  std::vector<Planned> out;
  for (const gguf::TensorInfo& tensor : header.tensors()) {
    const std::string_view own = tensor.type->name;
    if (is_weight_matrix(tensor) && own != "F32" && own != "F16" && own != "BF16")
      return invalid_argument("tensor \"" + std::string(tensor.name) + "\" is stored as " +
                              std::string(own) +
                              " already; quantise the file of floats that it was made from");
    Planned each{&tensor, &type_of(type_in_mix(mix, header, tensor))};
    each.width = tensor.shape.back();
    each.n_rows = 1;
    for (std::size_t d = 0; d + 1 < tensor.shape.size(); ++d) each.n_rows *= tensor.shape[d];
    out.push_back(each);
  }
  return out;
}

// Keys but for those that say how the file is quantised, which come anew, and its alignment, which is the usual one.
std::string front_of(const gguf::Header& header,
                     const std::vector<Planned>& tensors,
                     const Mix& mix) {
  constexpr std::array<std::string_view, 3> kMadeAnew{
      "general.file_type", "general.quantization_version", "general.alignment"};
  const auto is_copied = [&](std::string_view key) {
    return std::ranges::find(kMadeAnew, key) == kMadeAnew.end();
  };
  const auto n_copied = static_cast<std::uint64_t>(std::ranges::count_if(header.keys(), is_copied));
  Bytes out;
  out.number<std::array<char, 4>>({'G', 'G', 'U', 'F'});
  out.number<std::uint32_t>(3);
  out.number<std::uint64_t>(tensors.size());
  out.number<std::uint64_t>(n_copied + 2);
  for (const std::string_view key : header.keys()) {
    if (!is_copied(key)) continue;
    out.text(key);
    out.value(*header.find(key));
  }
  out.u32_key("general.file_type", mix.file_type);
  out.u32_key("general.quantization_version", 2);
  std::uint64_t offset = 0;
  for (const Planned& tensor : tensors) {
    const auto& shape = tensor.from->shape;
    out.text(tensor.from->name);
    out.number(static_cast<std::uint32_t>(shape.size()));
    for (std::size_t d = shape.size(); d-- > 0;) out.number(shape[d]);
    out.number(tensor.type->id);
    out.number(offset);
    offset += (tensor.n_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  out.align();
  return out.get();
}

class TensorWriter {
 public:
  TensorWriter(const weights::TensorFile& source, base::AtomicFile& file, base::ThreadPool& pool)
      : source_(source), file_(file), pool_(pool) {}

  Status write(const Planned& tensor) {
    const std::uint64_t source_bytes =
        tensor.width / tensor.from->type->block_values * tensor.from->type->block_bytes;
    const bool is_same = tensor.type == tensor.from->type;
    for (std::uint64_t row = 0; row < tensor.n_rows; row += kRowsAtOnce) {
      const std::uint64_t n = std::min(kRowsAtOnce, tensor.n_rows - row);
      from_.resize(n * source_bytes);
      if (!source_.read_at(tensor.from->begin + row * source_bytes, from_))
        return {Code::kDataLoss, source_.path() + ": cannot be read"};
      if (!is_same) encode(tensor, n);
      const auto& bytes = is_same ? from_ : to_;
      COXSWAIN_RETURN_IF_ERROR(
          file_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    }
    const std::uint64_t over = tensor.n_bytes() % kAlignment;
    return over == 0 ? Status() : file_.write(std::string(kAlignment - over, '\0'));
  }

 private:
  // Rows in from_, of floats, to to_.
  void encode(const Planned& tensor, std::uint64_t n) {
    const weights::DecodeBlock decode = weights::find_block_decoder(tensor.from->type->name);
    const EncodeBlock put = find_block_encoder(tensor.type->name);
    const std::size_t element = tensor.from->type->block_bytes;
    const std::uint64_t row_bytes =
        tensor.width / tensor.type->block_values * tensor.type->block_bytes;
    to_.resize(n * row_bytes);
    pool_.run(n, [&](std::size_t row, std::size_t) {
      std::vector<float> values(tensor.width);
      for (std::size_t i = 0; i < values.size(); ++i)
        decode(from_.data() + (row * tensor.width + i) * element, &values[i]);
      std::byte* to = to_.data() + row * row_bytes;
      for (std::size_t i = 0; i < values.size(); i += tensor.type->block_values) {
        put(values.data() + i, to);
        to += tensor.type->block_bytes;
      }
    });
  }

  const weights::TensorFile& source_;
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
                             const gguf::Header& header,
                             const gguf::TensorInfo& tensor) {
  if (!is_weight_matrix(tensor)) return tensor.type->name;
  const std::uint64_t width = tensor.shape.back();
  const auto tensors = header.tensors();
  const bool has_output =
      std::ranges::find(tensors, "output.weight", &gguf::TensorInfo::name) != tensors.end();
  std::string_view type = find_mix(mix)->main;
  if (tensor.name == "output.weight" || (!has_output && tensor.name == "token_embd.weight")) {
    if (type != "Q8_0") type = "Q6_K";
  } else if (mix == "Q4_K_M") {
    type = type_in_q4_k_m(header, tensor.name);
  }
  return fitting(type, width);
}

Status write_gguf(const std::string& from,
                  const std::string& to,
                  std::string_view mix,
                  base::ThreadPool& pool) {
  auto header = gguf::Header::read(from);
  if (!header.ok()) return header.status().with_context(from);
  if (header->number("split.count").value_or(1) > 1)
    return {Code::kUnimplemented, from + ": models that are split over files are not quantised"};
  auto tensors = plan(*header, mix);
  if (!tensors.ok()) return tensors.status().with_context(from);
  COXSWAIN_ASSIGN_OR_RETURN(const weights::TensorFile source, weights::TensorFile::open(from));
  COXSWAIN_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::create(to));
  COXSWAIN_RETURN_IF_ERROR(file.write(front_of(*header, *tensors, *find_mix(mix))));
  TensorWriter writer(source, file, pool);
  for (const Planned& tensor : *tensors) COXSWAIN_RETURN_IF_ERROR(writer.write(tensor));
  COXSWAIN_RETURN_IF_ERROR(file.commit());
  std::error_code error;
  using std::filesystem::perms;
  std::filesystem::permissions(
      to, perms::group_read | perms::others_read, std::filesystem::perm_options::add, error);
  return error ? Status(Code::kResourceExhausted, to + ": " + error.message()) : Status();
}

}  // namespace coxswain::quantize
