// Marlin (IST-DASLab's Layer.pack, 4 bits, symmetric): B int32 [K / 16, 2 N], s [G, N].
// A line of B holds 16 inputs; 64 outputs of it are 1024 codes in 128 words, in the order in which a tensor core takes
// them. Code p = 32 t + 8 j + e with x = {0, 2, 4, 6, 1, 3, 5, 7}[e] belongs to
//   input 2 (t % 4) + x % 2 + 8 ((x / 2) % 2), output t / 4 + 8 (x / 4) + 16 j.
// Scales are permuted in runs of 64 outputs, of 32 where one group is all.
//   W = (q - 8) * s

#include <array>

#include "weights/quant/module.h"

namespace coxswain::weights::quant {
namespace {

constexpr std::uint64_t kTile = 16;
constexpr std::uint64_t kRun = 64;                                       // outputs
constexpr std::uint64_t kRunWords = 128;                                 // of a line of B
constexpr std::array<std::uint32_t, 8> kNibble{0, 4, 1, 5, 2, 6, 3, 7};  // x -> e

struct Parts {
  StoredTensor codes;
  StoredTensor scales;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t n_groups = 0;
  std::uint64_t group_size = 0;
};

// Where in [0, 1024) the code of this input and output of a tile stands.
std::uint64_t code_at(std::uint64_t input, std::uint64_t output) {
  const std::uint64_t x = input % 2 + 2 * (input / 8) + 4 * (output % 16 / 8);
  const std::uint64_t t = 4 * (output % 8) + input % 8 / 2;
  return 32 * t + 8 * (output / 16) + kNibble[x];
}

// Where the scale of an output stands in its run.
std::uint64_t scale_at(std::uint64_t output, std::uint64_t n_groups) {
  if (n_groups > 1) return output / kRun * kRun + output % kRun % 8 * 8 + output % kRun / 8;
  // Stored 8 i + m is output 2 i + {0, 1, 8, 9, 16, 17, 24, 25}[m] of 32.
  const std::uint64_t in_run = output % 32;
  return output / 32 * 32 + in_run % 8 / 2 * 8 + in_run / 8 * 2 + in_run % 2;
}

class Rows final : public RowReader {
 public:
  static Result<std::unique_ptr<RowReader>> open(const Parts& parts, const ReadBytes& read) {
    auto out = std::make_unique<Rows>(parts);
    COXSWAIN_ASSIGN_OR_RETURN(out->codes_, read_all<std::uint32_t>(read, parts.codes));
    COXSWAIN_ASSIGN_OR_RETURN(out->scales_, read_floats(read, parts.scales));
    return std::unique_ptr<RowReader>(std::move(out));
  }

  explicit Rows(const Parts& parts) : parts_(parts) {}

  Status read(std::uint64_t first, std::uint64_t n, float* out) override {
    for (std::uint64_t row = first; row < first + n; ++row) {
      const std::uint64_t scale = scale_at(row, parts_.n_groups);
      for (std::uint64_t k = 0; k < parts_.k; ++k) {
        const std::uint64_t p = code_at(k % kTile, row % kRun);
        const std::uint64_t word = k / kTile * 2 * parts_.n + row / kRun * kRunWords + p / 8;
        const auto q = static_cast<std::int32_t>(codes_[word] >> (4 * (p % 8)) & 15U);
        const std::uint64_t g = parts_.group_size == 0 ? 0 : k / parts_.group_size;
        *out++ = static_cast<float>(q - 8) * scales_[g * parts_.n + scale];
      }
    }
    return {};
  }

 private:
  Parts parts_;
  std::vector<std::uint32_t> codes_;
  std::vector<float> scales_;
};

Result<DerivedTensor> derive(const Module& module, const StoredQuant& quant) {
  Parts parts;
  parts.group_size = quant.group_size;
  COXSWAIN_ASSIGN_OR_RETURN(parts.codes, module.get(".B"));
  COXSWAIN_ASSIGN_OR_RETURN(const auto words, extents(parts.codes, kInt32));
  if (words.second % kRunWords != 0)
    return tensor_error(parts.codes,
                        "has " + std::to_string(words.second) +
                            " words in a line, not a multiple of " + std::to_string(kRunWords));
  parts.k = words.first * kTile;
  parts.n = words.second / 2;
  COXSWAIN_ASSIGN_OR_RETURN(parts.scales, module.get(".s"));
  COXSWAIN_ASSIGN_OR_RETURN(const auto scales, extents(parts.scales, kScaleTypes));
  parts.n_groups = scales.first;
  COXSWAIN_RETURN_IF_ERROR(expect_groups(parts.scales, parts.n_groups, parts.k, quant.group_size));
  COXSWAIN_RETURN_IF_ERROR(expect_shape(parts.scales, {parts.n_groups, parts.n}));
  DerivedTensor out = module.derived(".weight", {parts.n, parts.k});
  out.open = [parts](const ReadBytes& read) { return Rows::open(parts, read); };
  return out;
}

constexpr std::array<std::string_view, 3> kSuffixes{".B", ".s", ".workspace"};

}  // namespace

const Form kMarlin{StoredMethod::kMarlin, "marlin", ".B", kSuffixes, derive};

}  // namespace coxswain::weights::quant
