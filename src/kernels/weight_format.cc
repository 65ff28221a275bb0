#include "kernels/weight_format.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernels/formats/all.h"

namespace coxswain::kernels {
namespace {

constexpr std::array kFormats{
#define COXSWAIN_PLAIN_FORMAT(name) &formats::k##name,
#define COXSWAIN_GROUP_FORMAT(name, codes) &formats::k##name,
#define COXSWAIN_SUPER_FORMAT(name) &formats::k##name,
#include "kernels/formats/list.inc"
#undef COXSWAIN_PLAIN_FORMAT
#undef COXSWAIN_GROUP_FORMAT
#undef COXSWAIN_SUPER_FORMAT
};

}  // namespace

bool WeightFormat::takes(const tensor::QuantScheme& rows) const {
  if (!is_quantised()) return false;
  tensor::QuantScheme regrouped = rows;
  if (scheme.group != 0 && rows.group % scheme.group == 0 && rows.sub_group == 0)
    regrouped.group = scheme.group;
  return regrouped == scheme;
}

std::span<const WeightFormat* const> weight_formats() {
  return kFormats;
}

const WeightFormat* find_format(std::string_view name) {
  const auto at = std::ranges::find(kFormats, name, &WeightFormat::name);
  return at == kFormats.end() ? nullptr : *at;
}

std::string_view quantised_names() {
  static const std::string names = [] {
    std::string out;
    for (const WeightFormat* format : kFormats) {
      if (!format->is_quantised() || !format->is_option) continue;
      if (!out.empty()) out += ", ";
      out += format->name;
    }
    return out;
  }();
  return names;
}

const WeightFormat& plain_format(tensor::DType type) {
  for (const WeightFormat* format : kFormats) {
    if (!format->is_quantised() && format->plain == type) return *format;
  }
  return formats::kFloat32;
}

MatrixImage outline_image(const LinearOps& ops, std::size_t n, std::size_t k) {
  const LinearOps::Layout layout = ops.layout(ops, n, k);
  MatrixImage image;
  image.ops = &ops;
  image.n = n;
  image.k = k;
  image.scales_at = layout.scales_at;
  image.sums_at = layout.sums_at;
  return image;
}

Result<MatrixImage> make_image(const LinearOps& ops, std::size_t n, std::size_t k) {
  MatrixImage image = outline_image(ops, n, k);
  COXSWAIN_ASSIGN_OR_RETURN(image.bytes,
                            tensor::AlignedBuffer::allocate(ops.layout(ops, n, k).bytes));
  return image;
}

Result<MatrixImage> pack_matrix(const LinearOps& ops,
                                std::size_t k,
                                std::span<const DenseRows> pieces) {
  std::size_t n = 0;
  for (const DenseRows& piece : pieces) n += piece.n_rows;
  COXSWAIN_ASSIGN_OR_RETURN(MatrixImage image, make_image(ops, n, k));
  std::size_t row = 0;
  for (const DenseRows& piece : pieces) {
    ops.pack(image, row, piece);
    row += piece.n_rows;
  }
  return image;
}

}  // namespace coxswain::kernels
