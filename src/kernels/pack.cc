#include "kernels/pack.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

#include "kernels/cpu/ops.h"
#include "kernels/formats/widen.h"

namespace coxswain::kernels {
namespace {

constexpr std::size_t round_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b * b;
}

// Copies rows of `n_units` units each into neighbouring places of a panel, unit by unit, so that stores are in order.
template <std::size_t kUnitBytes>
void interleave(std::byte* panel,
                std::size_t panel_rows,
                const std::vector<const std::byte*>& rows,
                std::size_t n_units) {
  for (std::size_t i = 0; i < n_units; ++i) {
    std::byte* out = panel + i * panel_rows * kUnitBytes;
    for (const std::byte* row : rows) {
      std::memcpy(out, row + i * kUnitBytes, kUnitBytes);
      out += kUnitBytes;
    }
  }
}

// The same for units of any size; the usual ones have a loop of their own.
void interleave_units(std::byte* panel,
                      std::size_t panel_rows,
                      const std::vector<const std::byte*>& rows,
                      std::size_t n_units,
                      std::size_t unit_bytes) {
  if (unit_bytes == 2) return interleave<2>(panel, panel_rows, rows, n_units);
  if (unit_bytes == 4) return interleave<4>(panel, panel_rows, rows, n_units);
  for (std::size_t u = 0; u < n_units; ++u) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::memcpy(panel + (u * panel_rows + r) * unit_bytes, rows[r] + u * unit_bytes, unit_bytes);
    }
  }
}

// Where the parts of an image are.
struct Places {
  const LinearKernel& kernel;
  const WeightFormat& format;
  std::size_t n_units;      // of a row
  std::size_t panel_bytes;  // with padding
  std::size_t n_groups;

  Places(const LinearOps& ops, std::size_t k)
      : kernel(*ops.kernel),
        format(*ops.format),
        n_units(round_up(k, kernel.unit_values) / kernel.unit_values),
        panel_bytes(round_up(k, kernel.k_multiple) / kernel.unit_values * kernel.panel *
                    kernel.unit_bytes),
        n_groups(format.n_groups(k)) {}

  // Of the first unit of row n.
  std::size_t unit(std::size_t n) const {
    return n / kernel.panel * panel_bytes + n % kernel.panel * kernel.unit_bytes;
  }
  // Of a group's parameters. More than four bytes of them are words of four, each of all outputs side by side.
  std::size_t word_bytes() const { return std::min<std::size_t>(format.scale_bytes, 4); }
  void put_parameters(const std::byte* from,
                      std::size_t n,
                      std::size_t group,
                      std::byte* to) const {
    for (std::size_t at = 0; at < format.scale_bytes; at += word_bytes())
      std::memcpy(to + word(n, group, at), from + at, word_bytes());
  }
  void get_parameters(const std::byte* from,
                      std::size_t n,
                      std::size_t group,
                      std::byte* to) const {
    for (std::size_t at = 0; at < format.scale_bytes; at += word_bytes())
      std::memcpy(to + at, from + word(n, group, at), word_bytes());
  }

 private:
  std::size_t word(std::size_t n, std::size_t group, std::size_t at) const {
    return (n / kernel.panel * n_groups + group) * kernel.panel * format.scale_bytes +
           at * kernel.panel + n % kernel.panel * word_bytes();
  }
};

// Puts rows that `encode` makes, one at a time, into the panels of an image.
class Packer {
 public:
  explicit Packer(MatrixImage& image)
      : image_(image),
        places_(*image.ops, image.k),
        row_bytes_(places_.n_units * places_.kernel.unit_bytes),
        values_(places_.kernel.panel * row_bytes_),
        scales_(places_.n_groups * places_.format.scale_bytes) {}

  // `encode(i, out)` fills out for row row_begin + i, or returns where its values lie already.
  template <typename Encode>
  void put(std::size_t row_begin, std::size_t n_rows, Encode encode) {
    const std::size_t panel = places_.kernel.panel;
    for (std::size_t i = 0; i < n_rows;) {
      const std::size_t first = row_begin + i;
      const std::size_t count = std::min(panel - first % panel, n_rows - i);
      rows_.clear();
      for (std::size_t r = 0; r < count; ++r) {
        const EncodedRow row{values_.data() + r * row_bytes_, scales_.data(), &sum_};
        rows_.push_back(encode(i + r, row));
        put_parameters(first + r);
      }
      interleave_units(image_.bytes.data() + places_.unit(first),
                       panel,
                       rows_,
                       places_.n_units,
                       places_.kernel.unit_bytes);
      i += count;
    }
  }

  std::size_t row_bytes() const { return row_bytes_; }

 private:
  void put_parameters(std::size_t n) {
    const std::size_t size = places_.format.scale_bytes;
    std::byte* const scales = image_.bytes.data() + image_.scales_at;
    for (std::size_t g = 0; g < places_.n_groups; ++g)
      places_.put_parameters(scales_.data() + g * size, n, g, scales);
    if (places_.format.has_sums)
      std::memcpy(image_.bytes.data() + image_.sums_at + n * sizeof(sum_), &sum_, sizeof(sum_));
  }

  MatrixImage& image_;
  Places places_;
  std::size_t row_bytes_;
  std::vector<std::byte> values_;  // of a panel's rows
  std::vector<std::byte> scales_;  // of one row
  std::int32_t sum_ = 0;
  std::vector<const std::byte*> rows_;
};

// Parameters of smaller groups: each stands as often as its group holds such.
std::vector<std::byte> repeated(std::span<const std::byte> from,
                                const tensor::QuantRows& rows,
                                std::size_t group) {
  if (from.empty()) return {};
  const std::size_t n_groups = (rows.k + group - 1) / group;
  const std::size_t size = from.size() / (rows.n_rows * rows.scheme.n_groups(rows.k));
  const std::size_t row_bytes = from.size() / rows.n_rows;
  std::vector<std::byte> out(rows.n_rows * n_groups * size);
  for (std::size_t row = 0; row < rows.n_rows; ++row) {
    for (std::size_t g = 0; g < n_groups; ++g) {
      const std::size_t of = rows.scheme.group == 0 ? 0 : g * group / rows.scheme.group;
      std::memcpy(out.data() + (row * n_groups + g) * size,
                  from.data() + row * row_bytes + of * size,
                  size);
    }
  }
  return out;
}

}  // namespace

LinearOps::Layout image_layout(const LinearOps& ops, std::size_t n, std::size_t k) {
  const Places places(ops, k);
  const std::size_t n_padded = round_up(n, places.kernel.panel);
  LinearOps::Layout out;
  out.scales_at = round_up(n_padded / places.kernel.panel * places.panel_bytes, 64);
  out.sums_at =
      round_up(out.scales_at + n_padded * places.n_groups * places.format.scale_bytes, 64);
  out.bytes = out.sums_at + (places.format.has_sums ? n_padded * sizeof(std::int32_t) : 0);
  return out;
}

void pack_rows(MatrixImage& image, std::size_t row_begin, const DenseRows& rows) {
  const WeightFormat& format = *image.ops->format;
  const std::size_t k = image.k;
  const std::size_t source_bytes = k * tensor::size_of(rows.type);
  Packer packer(image);
  const bool as_it_is = !format.is_quantised() && rows.type == format.plain;
  std::vector<float> wide(as_it_is ? 0 : k);
  packer.put(row_begin, rows.n_rows, [&](std::size_t i, const EncodedRow& out) -> const std::byte* {
    const std::byte* const from = rows.data + i * source_bytes;
    const std::size_t padding = packer.row_bytes() - (k * format.bits + 7) / 8;
    if (as_it_is && padding == 0) return from;
    std::memset(out.values + packer.row_bytes() - padding, 0, padding);
    if (as_it_is) {
      std::memcpy(out.values, from, source_bytes);
    } else {
      widen(from, rows.type, k, wide.data());
      format.encode(wide.data(), k, out);
    }
    return out.values;
  });
}

void pack_code_rows(MatrixImage& image, std::size_t row_begin, const tensor::QuantRows& rows) {
  const WeightFormat& format = *image.ops->format;
  assert(format.takes(rows.scheme) && rows.input_order.empty());
  tensor::QuantRows regrouped = rows;
  std::vector<std::byte> scales;
  std::vector<std::byte> offsets;
  if (rows.scheme.group != format.scheme.group) {
    const auto repeat = [&](std::span<const std::byte> from, std::vector<std::byte>& to) {
      to = repeated(from, rows, format.scheme.group);
      return std::span<const std::byte>(to);
    };
    regrouped.scheme = format.scheme;
    regrouped.scales = repeat(rows.scales, scales);
    regrouped.offsets = repeat(rows.offsets, offsets);
  }
  Packer packer(image);
  packer.put(row_begin, rows.n_rows, [&](std::size_t i, const EncodedRow& out) -> const std::byte* {
    std::memset(out.values, 0, packer.row_bytes());
    format.encode_codes(regrouped, i, out);
    return out.values;
  });
}

void unpack_row(const MatrixImage& image, std::size_t row, float* out) {
  const Places places(*image.ops, image.k);
  const LinearKernel& kernel = places.kernel;
  const std::size_t scale_bytes = places.format.scale_bytes;
  const std::size_t group = places.format.scheme.group;
  const std::byte* const scales = image.bytes.data() + image.scales_at;
  // A step of values at a time: units and scales are gathered from their panel, then decoded.
  alignas(8) std::byte values[kDecodeStep * sizeof(float)];
  alignas(8) std::byte step_scales[kDecodeStep];
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < image.k; i += kDecodeStep) {
    const std::size_t count = std::min(kDecodeStep, image.k - i);
    const std::size_t n_units = round_up(count, kernel.unit_values) / kernel.unit_values;
    const std::byte* from = image.bytes.data() + places.unit(row) +
                            i / kernel.unit_values * kernel.panel * kernel.unit_bytes;
    for (std::size_t u = 0; u < n_units; ++u, from += std::size_t{kernel.panel} * kernel.unit_bytes)
      std::memcpy(values + u * kernel.unit_bytes, from, kernel.unit_bytes);
    const std::size_t first_group = group == 0 ? 0 : i / group;
    const std::size_t end_group = group == 0 ? places.n_groups : (i + count + group - 1) / group;
    for (std::size_t g = first_group; g < end_group; ++g) {
      places.get_parameters(scales, row, g, step_scales + (g - first_group) * scale_bytes);
    }
    places.format.decode({values, step_scales, &sum}, count, out + i);
  }
}

}  // namespace coxswain::kernels
