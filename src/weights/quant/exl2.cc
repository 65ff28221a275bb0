// EXL2 (exllamav2): q_weight int32 [lines, N], for each output a stream of codes along K, one group of inputs after the
// other; q_groups int16 [2 G], bits of a group's codes and its first line; q_scale int32 [G, N / 8] of 4 bits less one;
// q_scale_max [G]; q_invperm int32 [K], the place in the stream of each input.
//   W = (q - 2^(bits - 1)) * s * s * q_scale_max / 256

#include <array>

#include "weights/quant/module.h"

namespace coxswain::weights::quant {
namespace {

constexpr std::array kInt16{StoredType::kI16};

struct Parts {
  StoredTensor codes;
  StoredTensor groups;
  StoredTensor scales;
  StoredTensor scale_max;
  StoredTensor places;
  std::uint64_t lines = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t n_groups = 0;
};

struct Place {
  std::uint64_t bit = 0;  // in the stream of an output
  std::uint32_t group = 0;
  std::uint32_t bits = 0;
};

// Of every place in the stream.
Result<std::vector<Place>> read_places(const Parts& parts, const ReadBytes& read) {
  COXSWAIN_ASSIGN_OR_RETURN(const auto groups, read_all<std::uint16_t>(read, parts.groups));
  std::vector<Place> out;
  for (std::uint32_t g = 0; g < parts.n_groups; ++g) {
    const std::uint32_t bits = groups[2 * g];
    const std::uint64_t begin = groups[2 * g + 1];
    const std::uint64_t end = g + 1 < parts.n_groups ? groups[2 * g + 3] : parts.lines;
    const std::string which = "gives group " + std::to_string(g) + " ";
    if (bits < 2 || bits > 8 || bits == 7)
      return tensor_error(parts.groups, which + std::to_string(bits) + " bits");
    if (begin != 0 && g == 0) return tensor_error(parts.groups, which + "a line other than 0");
    if (begin >= end || end > parts.lines || (end - begin) * 32 % bits != 0)
      return tensor_error(parts.groups,
                          which + "lines " + std::to_string(begin) + " to " + std::to_string(end) +
                              " of " + std::to_string(parts.lines));
    for (std::uint64_t i = 0; i < (end - begin) * 32 / bits; ++i) {
      if (out.size() == parts.k) break;
      out.push_back({begin * 32 + i * bits, g, bits});
    }
  }
  if (out.size() != parts.k)
    return tensor_error(parts.groups,
                        "has room for " + std::to_string(out.size()) + " of " +
                            std::to_string(parts.k) + " inputs");
  return out;
}

class Rows final : public RowReader {
 public:
  static Result<std::unique_ptr<RowReader>> open(const Parts& parts, const ReadBytes& read) {
    auto out = std::make_unique<Rows>(parts);
    COXSWAIN_ASSIGN_OR_RETURN(const auto places, read_places(parts, read));
    COXSWAIN_ASSIGN_OR_RETURN(const auto order, read_all<std::uint32_t>(read, parts.places));
    std::vector<bool> is_taken(parts.k);
    for (const std::uint32_t place : order) {
      if (place >= parts.k || is_taken[place])
        return tensor_error(parts.places, "is no order of " + std::to_string(parts.k) + " inputs");
      is_taken[place] = true;
      out->inputs_.push_back(places[place]);
    }
    COXSWAIN_ASSIGN_OR_RETURN(out->codes_, read_all<std::uint32_t>(read, parts.codes));
    COXSWAIN_ASSIGN_OR_RETURN(out->scales_, read_all<std::uint32_t>(read, parts.scales));
    COXSWAIN_ASSIGN_OR_RETURN(out->scale_max_, read_floats(read, parts.scale_max));
    return std::unique_ptr<RowReader>(std::move(out));
  }

  explicit Rows(const Parts& parts) : parts_(parts) {}

  Status read(std::uint64_t first, std::uint64_t n, float* out) override {
    std::vector<float> scales(parts_.n_groups);
    for (std::uint64_t row = first; row < first + n; ++row) {
      for (std::uint64_t g = 0; g < parts_.n_groups; ++g) {
        const std::uint32_t s =
            1 + (scales_[g * (parts_.n / 8) + row / 8] >> (4 * (row % 8)) & 15U);
        // Exact: 9 bits by those of a half float.
        scales[g] = static_cast<float>(s * s) * (scale_max_[g] / 256.0F);
      }
      for (const Place& input : inputs_) {
        const auto q = static_cast<std::int32_t>(
            stream_bits(codes_.data() + row, parts_.n, input.bit, input.bits));
        *out++ = static_cast<float>(q - (1 << (input.bits - 1))) * scales[input.group];
      }
    }
    return {};
  }

 private:
  Parts parts_;
  std::vector<Place> inputs_;  // [k]
  std::vector<std::uint32_t> codes_;
  std::vector<std::uint32_t> scales_;
  std::vector<float> scale_max_;
};

Result<DerivedTensor> derive(const Module& module, const StoredQuant& /*quant*/) {
  Parts parts;
  COXSWAIN_ASSIGN_OR_RETURN(parts.codes, module.get(".q_weight"));
  COXSWAIN_ASSIGN_OR_RETURN(const auto words, extents(parts.codes, kInt32));
  parts.lines = words.first;
  parts.n = words.second;
  if (parts.n % 8 != 0)
    return tensor_error(parts.codes,
                        "has " + std::to_string(parts.n) + " outputs, not whole words");
  COXSWAIN_ASSIGN_OR_RETURN(parts.places, module.get(".q_invperm"));
  COXSWAIN_RETURN_IF_ERROR(expect_type(parts.places, kInt32));
  if (parts.places.info->shape.size() != 1 || parts.places.info->n_bytes() == 0)
    return tensor_error(parts.places, "has shape " + shape_text(parts.places.info->shape));
  parts.k = parts.places.info->shape.front();
  // Two bits are the shortest code.
  if (parts.k > parts.lines * 16)
    return tensor_error(parts.places,
                        "has more inputs than the codes hold: " + std::to_string(parts.k));
  COXSWAIN_ASSIGN_OR_RETURN(parts.scales, module.get(".q_scale"));
  COXSWAIN_ASSIGN_OR_RETURN(const auto scales, extents(parts.scales, kInt32));
  parts.n_groups = scales.first;
  COXSWAIN_RETURN_IF_ERROR(expect_shape(parts.scales, {parts.n_groups, parts.n / 8}));
  COXSWAIN_ASSIGN_OR_RETURN(parts.groups, module.get(".q_groups", kInt16, {2 * parts.n_groups}));
  COXSWAIN_ASSIGN_OR_RETURN(parts.scale_max,
                            module.get(".q_scale_max", kScaleTypes, {parts.n_groups}));
  DerivedTensor out = module.derived(".weight", {parts.n, parts.k});
  out.open = [parts](const ReadBytes& read) { return Rows::open(parts, read); };
  return out;
}

constexpr std::array<std::string_view, 5> kSuffixes{
    ".q_weight", ".q_groups", ".q_scale", ".q_scale_max", ".q_invperm"};

}  // namespace

const Form kExl2{StoredMethod::kExl2, "exl2", ".q_weight", kSuffixes, derive};

}  // namespace coxswain::weights::quant
