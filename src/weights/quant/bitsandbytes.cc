// bitsandbytes. 8 bits: weight int8 [N, K], SCB float32 [N], the largest magnitude of an output.
//   W = w * SCB / 127
// 4 bits: weight uint8 of N * K / 2 bytes, the high half of a byte first; weight.quant_map float32 [16];
// weight.absmax float32, one for each block of values in a row-major line; weight.quant_state.bitsandbytes__nf4 (or
// fp4), JSON: quant_type, blocksize, shape and, where absmax itself is quantised (uint8), nested_blocksize and
// nested_offset with weight.nested_quant_map [256] and weight.nested_absmax.
//   W = quant_map[code] * absmax;  absmax = nested_quant_map[absmax] * nested_absmax + nested_offset

#include <array>
#include <cmath>

#include "json/json.h"
#include "weights/quant/byte_rows.h"

namespace coxswain::weights::quant {
namespace {

constexpr std::array kInt8{StoredType::kI8};
constexpr std::array kUint8{StoredType::kU8};
constexpr std::array kFloat32{StoredType::kF32};
constexpr std::uint64_t kStateBytesMax = 4096;

struct Nibbles {
  StoredTensor weight;
  StoredTensor map;
  StoredTensor absmax;
  StoredTensor state;
  StoredTensor nested_map;     // empty: absmax is float32
  StoredTensor nested_absmax;  // the same
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t block = 0;
  std::uint64_t nested_block = 0;
  float nested_offset = 0.0F;
};

class NibbleRows final : public RowReader {
 public:
  static Result<std::unique_ptr<RowReader>> open(const Nibbles& parts, const ReadBytes& read) {
    auto out = std::make_unique<NibbleRows>(parts, read);
    // Looked at already; now it counts as read.
    COXSWAIN_RETURN_IF_ERROR(read_all<std::uint8_t>(read, parts.state).status());
    COXSWAIN_ASSIGN_OR_RETURN(out->map_, read_floats(read, parts.map));
    if (!parts.nested_map) {
      COXSWAIN_ASSIGN_OR_RETURN(out->absmax_, read_floats(read, parts.absmax));
      return std::unique_ptr<RowReader>(std::move(out));
    }
    COXSWAIN_ASSIGN_OR_RETURN(const auto codes, read_all<std::uint8_t>(read, parts.absmax));
    COXSWAIN_ASSIGN_OR_RETURN(const auto map, read_floats(read, parts.nested_map));
    COXSWAIN_ASSIGN_OR_RETURN(const auto absmax, read_floats(read, parts.nested_absmax));
    out->absmax_.resize(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i)
      out->absmax_[i] = map[codes[i]] * absmax[i / parts.nested_block] + parts.nested_offset;
    return std::unique_ptr<RowReader>(std::move(out));
  }

  NibbleRows(const Nibbles& parts, const ReadBytes& read) : parts_(parts), read_(read) {}

  Status read(std::uint64_t first, std::uint64_t n, float* out) override {
    const std::uint64_t begin = first * parts_.k;
    const std::uint64_t end = begin + n * parts_.k;
    bytes_.resize((end + 1) / 2 - begin / 2);
    COXSWAIN_RETURN_IF_ERROR(
        read_(parts_.weight, begin / 2, std::as_writable_bytes(std::span(bytes_))));
    for (std::uint64_t i = begin; i < end; ++i) {
      const unsigned byte = bytes_[i / 2 - begin / 2];
      *out++ = map_[i % 2 == 0 ? byte >> 4U : byte & 15U] * absmax_[i / parts_.block];
    }
    return {};
  }

 private:
  Nibbles parts_;
  ReadBytes read_;
  std::vector<float> map_;
  std::vector<float> absmax_;
  std::vector<std::uint8_t> bytes_;
};

Status read_state(const StoredQuant& quant, Nibbles& parts) {
  const auto bad = [&](const std::string& what) { return tensor_error(parts.state, what); };
  COXSWAIN_RETURN_IF_ERROR(expect_type(parts.state, kUint8));
  if (parts.state.info->n_bytes() > kStateBytesMax) return bad("has more than 4096 bytes");
  std::string text(parts.state.info->n_bytes(), '\0');
  COXSWAIN_RETURN_IF_ERROR(
      parts.state.file->read(*parts.state.info, 0, std::as_writable_bytes(std::span(text))));
  const auto state = json::parse(text);
  if (!state.ok()) return bad("is no JSON: " + state.status().message());
  const auto count = [&](const char* field) -> std::uint64_t {
    const json::Value* const value = state->find(field);
    return value == nullptr ? 0 : value->to_uint64().value_or(0);
  };
  const json::Value* const type = state->find("quant_type");
  if (type == nullptr || !type->is_string() || type->as_string() != quant.code)
    return bad("does not say quant_type " + quant.code + " as the config does");
  const json::Value* const shape = state->find("shape");
  if (shape == nullptr || !shape->is_array() || shape->as_array().size() != 2)
    return bad("names no shape of two extents");
  parts.n = shape->as_array()[0].to_uint64().value_or(0);
  parts.k = shape->as_array()[1].to_uint64().value_or(0);
  parts.block = count("blocksize");
  std::uint64_t n_values = 0;
  if (parts.n == 0 || parts.k == 0 || __builtin_mul_overflow(parts.n, parts.k, &n_values) ||
      parts.weight.info->n_bytes() != n_values / 2 + n_values % 2)
    return bad("names a shape that the " + std::to_string(parts.weight.info->n_bytes()) +
               " bytes of codes do not hold");
  if (parts.block == 0) return bad("names no blocksize");
  if (state->find("nested_blocksize") == nullptr) return {};
  parts.nested_block = count("nested_blocksize");
  const json::Value* const offset = state->find("nested_offset");
  if (parts.nested_block == 0 || offset == nullptr || !offset->to_double())
    return bad("has no nested_blocksize or nested_offset that are numbers");
  parts.nested_offset = static_cast<float>(*offset->to_double());
  return {};
}

Result<DerivedTensor> derive_4bit(const Module& module, const StoredQuant& quant) {
  Nibbles parts;
  COXSWAIN_ASSIGN_OR_RETURN(parts.weight, module.get(".weight"));
  COXSWAIN_RETURN_IF_ERROR(expect_type(parts.weight, kUint8));
  const std::string suffix = ".weight.quant_state.bitsandbytes__" + quant.code;
  COXSWAIN_ASSIGN_OR_RETURN(parts.state, module.get(suffix));
  COXSWAIN_RETURN_IF_ERROR(read_state(quant, parts));
  COXSWAIN_ASSIGN_OR_RETURN(parts.map, module.get(".weight.quant_map", kFloat32, {16}));
  const auto ceil = [](std::uint64_t n, std::uint64_t d) { return n / d + (n % d != 0 ? 1 : 0); };
  const std::uint64_t n_blocks = ceil(parts.n * parts.k, parts.block);
  const bool is_nested = parts.nested_block != 0;
  COXSWAIN_ASSIGN_OR_RETURN(
      parts.absmax,
      module.get(
          ".weight.absmax", is_nested ? std::span(kUint8) : std::span(kFloat32), {n_blocks}));
  if (is_nested) {
    COXSWAIN_ASSIGN_OR_RETURN(parts.nested_map,
                              module.get(".weight.nested_quant_map", kFloat32, {256}));
    COXSWAIN_ASSIGN_OR_RETURN(
        parts.nested_absmax,
        module.get(".weight.nested_absmax", kFloat32, {ceil(n_blocks, parts.nested_block)}));
  }
  DerivedTensor out = module.derived(".weight", {parts.n, parts.k});
  out.open = [parts](const ReadBytes& read) { return NibbleRows::open(parts, read); };
  return out;
}

Result<DerivedTensor> derive_8bit(const Module& module) {
  COXSWAIN_ASSIGN_OR_RETURN(ByteMatrix matrix, byte_matrix(module, kInt8));
  const StoredTensor format = module.find(".weight_format");
  if (format) {
    std::uint8_t layout = 1;
    COXSWAIN_RETURN_IF_ERROR(module.get(".weight_format", kUint8, {}).status());
    COXSWAIN_RETURN_IF_ERROR(
        format.file->read(*format.info, 0, std::as_writable_bytes(std::span(&layout, 1))));
    if (layout != 0)
      return tensor_error(format, "is " + std::to_string(layout) + ", only 0 (rows) is supported");
  }
  COXSWAIN_ASSIGN_OR_RETURN(matrix.scales,
                            module.get(".SCB", kFloat32, {matrix.weight.info->shape[0]}));
  COXSWAIN_RETURN_IF_ERROR(fit_plain_scales(matrix));
  matrix.scale_divisor = 127.0F;
  DerivedTensor out = module.derived(".weight", matrix.weight.info->shape);
  out.open = [matrix](const ReadBytes& read) { return open_byte_rows(matrix, read); };
  return out;
}

Result<DerivedTensor> derive(const Module& module, const StoredQuant& quant) {
  return quant.bits == 8 ? derive_8bit(module) : derive_4bit(module, quant);
}

constexpr std::array<std::string_view, 9> kSuffixes{".weight",
                                                    ".weight.absmax",
                                                    ".weight.quant_map",
                                                    ".weight.nested_absmax",
                                                    ".weight.nested_quant_map",
                                                    ".weight.quant_state.bitsandbytes__nf4",
                                                    ".weight.quant_state.bitsandbytes__fp4",
                                                    ".SCB",
                                                    ".weight_format"};

}  // namespace

const Form kBitsandbytes{
    StoredMethod::kBitsandbytes, "bitsandbytes", ".weight.absmax or .SCB", kSuffixes, derive};

}  // namespace coxswain::weights::quant
