// GPTQ (AutoGPTQ's and GPTQModel's files): qweight int32 [K * bits / 32, N], a stream of codes along K for each output;
// qzeros int32 [G, ceil(N * bits / 32)], a stream along N; scales [G, N]; g_idx int32 [K], the group of each input.
//   W[n, k] = (q - z) * scales[g_idx[k], n]
// The first form stores z - 1 in as many bits as a code has: all ones stand for z = 0.

#include <array>

#include "weights/quant/group_codes.h"
#include "weights/quant/module.h"

namespace coxswain::weights::quant {
namespace {

struct Parts {
  StoredTensor qweight;
  StoredTensor qzeros;
  StoredTensor scales;
  StoredTensor g_idx;  // may be empty: groups in order
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t n_groups = 0;
  std::uint64_t group_size = 0;
  std::uint32_t bits = 0;
  bool zeros_less_one = false;
};

class Rows final : public RowReader {
 public:
  static Result<std::unique_ptr<RowReader>> open(const Parts& parts, const ReadBytes& read) {
    auto out = std::make_unique<Rows>(parts);
    COXSWAIN_ASSIGN_OR_RETURN(out->groups_, read_groups(parts, read));
    COXSWAIN_ASSIGN_OR_RETURN(out->codes_, read_all<std::uint32_t>(read, parts.qweight));
    COXSWAIN_ASSIGN_OR_RETURN(out->zeros_, read_all<std::uint32_t>(read, parts.qzeros));
    COXSWAIN_ASSIGN_OR_RETURN(out->scales_, read_floats(read, parts.scales));
    out->scheme_ = scheme_of_groups(*out);
    return std::unique_ptr<RowReader>(std::move(out));
  }

  explicit Rows(const Parts& parts) : parts_(parts) {}

  std::uint64_t n() const { return parts_.n; }
  std::uint64_t k() const { return parts_.k; }
  std::uint64_t n_groups() const { return parts_.n_groups; }
  std::uint64_t group_size() const { return parts_.group_size; }
  std::uint32_t bits() const { return parts_.bits; }
  std::uint32_t group_of(std::uint64_t k) const { return groups_[k]; }
  std::uint32_t code(std::uint64_t row, std::uint64_t k) const {
    return stream_bits(codes_.data() + row, parts_.n, k * parts_.bits, parts_.bits);
  }
  std::uint32_t zero(std::uint64_t row, std::uint64_t group) const {
    const std::uint64_t words = zeros_.size() / parts_.n_groups;
    const std::uint32_t stored =
        stream_bits(zeros_.data() + group * words, 1, row * parts_.bits, parts_.bits);
    return parts_.zeros_less_one ? (stored + 1) & ((1U << parts_.bits) - 1) : stored;
  }
  float scale(std::uint64_t row, std::uint64_t group) const {
    return scales_[group * parts_.n + row];
  }

  Status read(std::uint64_t first, std::uint64_t n, float* out) override {
    std::vector<std::int32_t> zeros(parts_.n_groups);
    for (std::uint64_t row = first; row < first + n; ++row) {
      for (std::uint64_t g = 0; g < parts_.n_groups; ++g)
        zeros[g] = static_cast<std::int32_t>(zero(row, g));
      for (std::uint64_t k = 0; k < parts_.k; ++k) {
        const std::uint32_t g = groups_[k];
        *out++ =
            static_cast<float>(static_cast<std::int32_t>(code(row, k)) - zeros[g]) * scale(row, g);
      }
    }
    return {};
  }

  tensor::QuantScheme scheme() const override { return scheme_; }
  Status read_codes(std::uint64_t first, std::uint64_t n, tensor::CodeRows& out) override {
    fill_codes(*this, scheme_, first, n, out);
    return {};
  }

 private:
  static Result<std::vector<std::uint32_t>> read_groups(const Parts& parts, const ReadBytes& read) {
    std::vector<std::uint32_t> out(parts.k);
    if (!parts.g_idx) {
      for (std::uint64_t k = 0; k < parts.k; ++k)
        out[k] = static_cast<std::uint32_t>(parts.group_size == 0 ? 0 : k / parts.group_size);
      return out;
    }
    COXSWAIN_ASSIGN_OR_RETURN(out, read_all<std::uint32_t>(read, parts.g_idx));
    for (const std::uint32_t group : out) {
      if (group >= parts.n_groups)
        return tensor_error(parts.g_idx,
                            "holds group " + std::to_string(static_cast<std::int32_t>(group)) +
                                ", there are " + std::to_string(parts.n_groups));
    }
    return out;
  }

  Parts parts_;
  std::vector<std::uint32_t> groups_;  // [k]
  std::vector<std::uint32_t> codes_;
  std::vector<std::uint32_t> zeros_;
  std::vector<float> scales_;
  tensor::QuantScheme scheme_;
};

Result<DerivedTensor> derive(const Module& module, const StoredQuant& quant) {
  Parts parts;
  parts.bits = quant.bits;
  parts.group_size = quant.group_size;
  parts.zeros_less_one = quant.zeros_less_one;
  COXSWAIN_ASSIGN_OR_RETURN(parts.qweight, module.get(".qweight"));
  COXSWAIN_ASSIGN_OR_RETURN(const auto words, extents(parts.qweight, kInt32));
  // The bytes of the part are counted, so these products do not overflow.
  if (words.first * 32 % quant.bits != 0)
    return tensor_error(parts.qweight,
                        "has " + std::to_string(words.first) + " rows, not whole codes of " +
                            std::to_string(quant.bits) + " bits");
  parts.k = words.first * 32 / quant.bits;
  parts.n = words.second;
  COXSWAIN_ASSIGN_OR_RETURN(parts.scales, module.get(".scales"));
  COXSWAIN_ASSIGN_OR_RETURN(const auto scales, extents(parts.scales, kScaleTypes));
  parts.n_groups = scales.first;
  COXSWAIN_RETURN_IF_ERROR(expect_groups(parts.scales, parts.n_groups, parts.k, quant.group_size));
  COXSWAIN_RETURN_IF_ERROR(expect_shape(parts.scales, {parts.n_groups, parts.n}));
  COXSWAIN_ASSIGN_OR_RETURN(
      parts.qzeros,
      module.get(".qzeros", kInt32, {parts.n_groups, (parts.n * quant.bits + 31) / 32}));
  const StoredTensor g_idx = module.find(".g_idx");
  if (g_idx && g_idx.info->n_bytes() != 0) {
    COXSWAIN_ASSIGN_OR_RETURN(parts.g_idx, module.get(".g_idx", kInt32, {parts.k}));
  }
  DerivedTensor out = module.derived(".weight", {parts.n, parts.k});
  out.open = [parts](const ReadBytes& read) { return Rows::open(parts, read); };
  return out;
}

constexpr std::array<std::string_view, 4> kSuffixes{".qweight", ".qzeros", ".scales", ".g_idx"};

}  // namespace

const Form kGptq{StoredMethod::kGptq, "gptq", ".qweight", kSuffixes, derive};

}  // namespace coxswain::weights::quant
