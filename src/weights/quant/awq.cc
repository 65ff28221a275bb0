// AWQ (AutoAWQ's "gemm" files): qweight int32 [K, N / 8], qzeros int32 [G, N / 8], scales [G, N], groups in order.
// Nibble i of a word belongs to output 8 * word + kOrder[i].
//   W[n, k] = (q - z) * scales[k / group_size, n]

#include <array>

#include "weights/quant/group_codes.h"
#include "weights/quant/module.h"

namespace coxswain::weights::quant {
namespace {

struct Parts {
  StoredTensor qweight;
  StoredTensor qzeros;
  StoredTensor scales;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t group_size = 0;
};

// Output 8 * word + i stands in this nibble; kOrder {0, 2, 4, 6, 1, 3, 5, 7} turned round.
constexpr std::array<std::uint32_t, 8> kNibble{0, 4, 1, 5, 2, 6, 3, 7};

class Rows final : public RowReader {
 public:
  static Result<std::unique_ptr<RowReader>> open(const Parts& parts, const ReadBytes& read) {
    auto out = std::make_unique<Rows>(parts);
    COXSWAIN_ASSIGN_OR_RETURN(out->codes_, read_all<std::uint32_t>(read, parts.qweight));
    COXSWAIN_ASSIGN_OR_RETURN(out->zeros_, read_all<std::uint32_t>(read, parts.qzeros));
    COXSWAIN_ASSIGN_OR_RETURN(out->scales_, read_floats(read, parts.scales));
    out->scheme_ = scheme_of_groups(*out);
    return std::unique_ptr<RowReader>(std::move(out));
  }

  explicit Rows(const Parts& parts) : parts_(parts) {}

  std::uint64_t n() const { return parts_.n; }
  std::uint64_t k() const { return parts_.k; }
  std::uint64_t n_groups() const { return scales_.size() / parts_.n; }
  std::uint64_t group_size() const { return parts_.group_size; }
  static std::uint32_t bits() { return 4; }
  std::uint64_t group_of(std::uint64_t k) const {
    return parts_.group_size == 0 ? 0 : k / parts_.group_size;
  }
  std::uint32_t code(std::uint64_t row, std::uint64_t k) const { return nibble(codes_, row, k); }
  std::uint32_t zero(std::uint64_t row, std::uint64_t group) const {
    return nibble(zeros_, row, group);
  }
  float scale(std::uint64_t row, std::uint64_t group) const {
    return scales_[group * parts_.n + row];
  }

  Status read(std::uint64_t first, std::uint64_t n, float* out) override {
    for (std::uint64_t row = first; row < first + n; ++row) {
      for (std::uint64_t k = 0; k < parts_.k; ++k) {
        const std::uint64_t g = group_of(k);
        const auto q = static_cast<std::int32_t>(code(row, k));
        *out++ = static_cast<float>(q - static_cast<std::int32_t>(zero(row, g))) * scale(row, g);
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
  std::uint32_t nibble(const std::vector<std::uint32_t>& from,
                       std::uint64_t row,
                       std::uint64_t line) const {
    return from[line * (parts_.n / 8) + row / 8] >> (4 * kNibble[row % 8]) & 15U;
  }

  Parts parts_;
  std::vector<std::uint32_t> codes_;
  std::vector<std::uint32_t> zeros_;
  std::vector<float> scales_;
  tensor::QuantScheme scheme_;
};

Result<DerivedTensor> derive(const Module& module, const StoredQuant& quant) {
  Parts parts;
  parts.group_size = quant.group_size;
  COXSWAIN_ASSIGN_OR_RETURN(parts.qweight, module.get(".qweight"));
  COXSWAIN_ASSIGN_OR_RETURN(const auto words, extents(parts.qweight, kInt32));
  parts.k = words.first;
  parts.n = words.second * 8;
  COXSWAIN_ASSIGN_OR_RETURN(parts.scales, module.get(".scales"));
  COXSWAIN_ASSIGN_OR_RETURN(const auto scales, extents(parts.scales, kScaleTypes));
  COXSWAIN_RETURN_IF_ERROR(expect_groups(parts.scales, scales.first, parts.k, quant.group_size));
  COXSWAIN_RETURN_IF_ERROR(expect_shape(parts.scales, {scales.first, parts.n}));
  COXSWAIN_ASSIGN_OR_RETURN(parts.qzeros,
                            module.get(".qzeros", kInt32, {scales.first, words.second}));
  DerivedTensor out = module.derived(".weight", {parts.n, parts.k});
  out.open = [parts](const ReadBytes& read) { return Rows::open(parts, read); };
  return out;
}

constexpr std::array<std::string_view, 3> kSuffixes{".qweight", ".qzeros", ".scales"};

}  // namespace

const Form kAwq{StoredMethod::kAwq, "awq", ".qweight", kSuffixes, derive};

}  // namespace coxswain::weights::quant
