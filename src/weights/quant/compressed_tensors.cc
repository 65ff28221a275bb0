// compressed-tensors (the package of that name).
// int-quantized, float-quantized, naive-quantized: weight int8 or e4m3fn [N, K], weight_scale for the tensor, each
// output, groups of inputs or blocks, weight_zero_point int8 of the same shape.
// pack-quantized: weight_packed int32 [N, ceil(K * bits / 32)], along K lowest bits first, value + 2^(bits - 1);
// weight_scale [N, G]; weight_shape int64 [2]; weight_zero_point int32 [ceil(N * bits / 32), G], packed along N with
// the same offset; weight_g_idx int32 [K], the group of each input.
//   W = (q - z) * s

#include <algorithm>
#include <array>

#include "weights/quant/byte_rows.h"
#include "weights/quant/group_codes.h"

namespace coxswain::weights::quant {
namespace {

constexpr std::array kInt8{StoredType::kI8};
constexpr std::array kFloat8{StoredType::kF8E4M3};
constexpr std::array kInt64{StoredType::kI64};

struct Packed {
  StoredTensor codes;
  StoredTensor scales;
  StoredTensor zeros;  // may be empty: symmetric
  StoredTensor g_idx;  // may be empty: groups in order
  StoredTensor extents;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t n_groups = 0;
  std::uint64_t group_size = 0;
  std::uint32_t bits = 0;
};

class PackedRows final : public RowReader {
 public:
  static Result<std::unique_ptr<RowReader>> open(const Packed& packed, const ReadBytes& read) {
    auto out = std::make_unique<PackedRows>(packed, read);
    // Looked at already; now it counts as read.
    COXSWAIN_RETURN_IF_ERROR(read_all<std::uint64_t>(read, packed.extents).status());
    COXSWAIN_ASSIGN_OR_RETURN(out->scales_, read_floats(read, packed.scales));
    if (packed.zeros) {
      COXSWAIN_ASSIGN_OR_RETURN(out->zeros_, read_all<std::uint32_t>(read, packed.zeros));
    }
    COXSWAIN_ASSIGN_OR_RETURN(out->groups_, read_groups(packed, read));
    out->scheme_ = scheme_of_groups(*out);
    return std::unique_ptr<RowReader>(std::move(out));
  }

  PackedRows(const Packed& packed, const ReadBytes& read) : packed_(packed), read_(read) {}

  std::uint64_t n() const { return packed_.n; }
  std::uint64_t k() const { return packed_.k; }
  std::uint64_t n_groups() const { return packed_.n_groups; }
  std::uint64_t group_size() const { return packed_.group_size; }
  std::uint32_t bits() const { return packed_.bits; }
  std::uint32_t group_of(std::uint64_t k) const { return groups_[k]; }
  // REQUIRES: the row is among those read last.
  std::uint32_t code(std::uint64_t row, std::uint64_t k) const {
    const std::uint64_t words = packed_.codes.info->shape[1];
    return stream_bits(codes_.data() + (row - first_) * words, 1, k * packed_.bits, packed_.bits);
  }
  std::uint32_t zero(std::uint64_t row, std::uint64_t group) const {
    if (zeros_.empty()) return 1U << (packed_.bits - 1);
    return stream_bits(zeros_.data() + group, packed_.n_groups, row * packed_.bits, packed_.bits);
  }
  float scale(std::uint64_t row, std::uint64_t group) const {
    return scales_[row * packed_.n_groups + group];
  }

  Status read(std::uint64_t first, std::uint64_t n, float* out) override {
    COXSWAIN_RETURN_IF_ERROR(read_words(first, n));
    for (std::uint64_t row = first; row < first + n; ++row) {
      for (std::uint64_t k = 0; k < packed_.k; ++k) {
        const std::uint64_t g = groups_[k];
        const auto q = static_cast<std::int32_t>(code(row, k));
        *out++ = static_cast<float>(q - static_cast<std::int32_t>(zero(row, g))) * scale(row, g);
      }
    }
    return {};
  }

  tensor::QuantScheme scheme() const override { return scheme_; }
  Status read_codes(std::uint64_t first, std::uint64_t n, tensor::CodeRows& out) override {
    COXSWAIN_RETURN_IF_ERROR(read_words(first, n));
    fill_codes(*this, scheme_, first, n, out);
    return {};
  }

 private:
  // The codes of rows [first, first + n).
  Status read_words(std::uint64_t first, std::uint64_t n) {
    const std::uint64_t words = packed_.codes.info->shape[1];
    first_ = first;
    codes_.resize(n * words);
    return read_(packed_.codes,
                 first * words * sizeof(std::uint32_t),
                 std::as_writable_bytes(std::span(codes_)));
  }

  static Result<std::vector<std::uint32_t>> read_groups(const Packed& packed,
                                                        const ReadBytes& read) {
    std::vector<std::uint32_t> out(packed.k);
    if (packed.g_idx) {
      COXSWAIN_ASSIGN_OR_RETURN(out, read_all<std::uint32_t>(read, packed.g_idx));
      // Where order does not count, every entry is -1.
      const bool is_unset = std::ranges::all_of(out, [](std::uint32_t g) { return g == ~0U; });
      const bool fits =
          std::ranges::all_of(out, [&](std::uint32_t g) { return g < packed.n_groups; });
      if (fits) return out;
      if (!is_unset)
        return tensor_error(
            packed.g_idx,
            "holds a group outside of the " + std::to_string(packed.n_groups) + " that there are");
    }
    for (std::uint64_t k = 0; k < packed.k; ++k)
      out[k] = static_cast<std::uint32_t>(packed.group_size == 0 ? 0 : k / packed.group_size);
    return out;
  }

  Packed packed_;
  ReadBytes read_;
  std::vector<float> scales_;
  std::vector<std::uint32_t> zeros_;
  std::vector<std::uint32_t> groups_;  // [k]
  std::vector<std::uint32_t> codes_;   // of some rows
  std::uint64_t first_ = 0;            // of these
  tensor::QuantScheme scheme_;
};

// [n, k] of weight_shape, which must be what the packed part can hold.
Status read_extents(const Module& module, Packed& packed) {
  COXSWAIN_ASSIGN_OR_RETURN(packed.extents, module.get(".weight_shape", kInt64, {2}));
  std::array<std::uint64_t, 2> extents_read{};
  COXSWAIN_RETURN_IF_ERROR(packed.extents.file->read(
      *packed.extents.info, 0, std::as_writable_bytes(std::span(extents_read))));
  const auto [n, words] = std::pair(packed.codes.info->shape[0], packed.codes.info->shape[1]);
  packed.n = extents_read[0];
  packed.k = extents_read[1];
  const std::uint64_t per_word = 32 / packed.bits;
  if (packed.n == n && packed.k != 0 && packed.k <= words * per_word &&
      packed.k > (words - 1) * per_word)
    return {};
  return tensor_error(packed.extents,
                      "says " + shape_text(extents_read) + ", which codes of shape " +
                          shape_text(packed.codes.info->shape) + " do not hold");
}

Result<DerivedTensor> derive_packed(const Module& module, const StoredGroup& group) {
  if (const StoredTensor surplus = module.find(".weight"); surplus && module.has(".weight_packed"))
    return tensor_error(surplus,
                        "is one part too many beside \"" + module.name() + ".weight_packed\"");
  Packed packed;
  packed.bits = group.bits;
  packed.group_size = group.group_size;
  COXSWAIN_ASSIGN_OR_RETURN(packed.codes, module.get(".weight_packed"));
  COXSWAIN_RETURN_IF_ERROR(extents(packed.codes, kInt32).status());
  COXSWAIN_RETURN_IF_ERROR(read_extents(module, packed));
  COXSWAIN_ASSIGN_OR_RETURN(packed.scales, module.get(".weight_scale"));
  COXSWAIN_ASSIGN_OR_RETURN(const auto scales, extents(packed.scales, kScaleTypes));
  packed.n_groups = scales.second;
  COXSWAIN_RETURN_IF_ERROR(
      expect_groups(packed.scales, packed.n_groups, packed.k, group.group_size));
  COXSWAIN_RETURN_IF_ERROR(expect_shape(packed.scales, {packed.n, packed.n_groups}));
  if (!group.symmetric) {
    const std::uint64_t per_word = 32 / packed.bits;
    COXSWAIN_ASSIGN_OR_RETURN(
        packed.zeros,
        module.get(
            ".weight_zero_point", kInt32, {(packed.n + per_word - 1) / per_word, packed.n_groups}));
  }
  if (module.has(".weight_g_idx")) {
    COXSWAIN_ASSIGN_OR_RETURN(packed.g_idx, module.get(".weight_g_idx", kInt32, {packed.k}));
  }
  DerivedTensor out = module.derived(".weight", {packed.n, packed.k});
  out.open = [packed](const ReadBytes& read) { return PackedRows::open(packed, read); };
  return out;
}

Result<DerivedTensor> derive_bytes(const Module& module, const StoredGroup& group) {
  COXSWAIN_ASSIGN_OR_RETURN(
      ByteMatrix matrix,
      byte_matrix(module, group.is_float ? std::span(kFloat8) : std::span(kInt8)));
  COXSWAIN_ASSIGN_OR_RETURN(matrix.scales, module.get(".weight_scale"));
  if (group.block_rows != 0 || group.group_size != 0) {
    matrix.block_rows = std::max<std::uint64_t>(group.block_rows, 1);
    matrix.block_inputs = group.block_rows != 0 ? group.block_inputs : group.group_size;
    COXSWAIN_RETURN_IF_ERROR(fit_block_scales(matrix));
  } else {
    COXSWAIN_RETURN_IF_ERROR(fit_plain_scales(matrix));
  }
  if (!group.symmetric) {
    COXSWAIN_ASSIGN_OR_RETURN(matrix.zeros,
                              module.get(".weight_zero_point", kInt8, matrix.scales.info->shape));
  }
  DerivedTensor out = module.derived(".weight", matrix.weight.info->shape);
  out.open = [matrix](const ReadBytes& read) { return open_byte_rows(matrix, read); };
  return out;
}

// The first of the config's groups that a module fits: their targets name classes of another program, and no two
// groups ask for the same shapes.
Result<DerivedTensor> derive(const Module& module, const StoredQuant& quant) {
  Result<DerivedTensor> out = internal_error("a config without groups");
  for (const StoredGroup& group : quant.groups) {
    out = group.is_packed ? derive_packed(module, group) : derive_bytes(module, group);
    if (!out.ok()) continue;
    const StoredTensor zeros = module.find(".weight_zero_point");
    if (!zeros || !group.symmetric) return out;
    out = tensor_error(zeros, "is there, but the config says that weights are symmetric");
  }
  return out;
}

constexpr std::array<std::string_view, 9> kSuffixes{".weight",
                                                    ".weight_packed",
                                                    ".weight_scale",
                                                    ".weight_zero_point",
                                                    ".weight_shape",
                                                    ".weight_g_idx",
                                                    ".input_scale",
                                                    ".input_zero_point",
                                                    ".input_global_scale"};

}  // namespace

const Form kCompressedTensors{
    StoredMethod::kCompressedTensors, "compressed-tensors", ".weight_scale", kSuffixes, derive};

}  // namespace coxswain::weights::quant
