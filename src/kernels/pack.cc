#include "kernels/pack.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/cache_type.h"
#include "kernels/cpu/ops.h"
#include "kernels/formats/widen.h"

namespace coxswain::kernels {
namespace {

constexpr std::size_t round_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b * b;
}

// Rows of `n_units` units each that go into neighbouring places of a panel.
struct RowGroup {
  std::byte* panel;        // the first unit of the first row
  std::size_t panel_rows;  // of the whole panel
  std::span<const std::byte* const> rows;
  std::size_t n_units;  // of one word
};

// Unit by unit, so that stores are in order.
template <std::size_t kUnitBytes>
void interleave(const RowGroup& group) {
  for (std::size_t i = 0; i < group.n_units; ++i) {
    std::byte* out = group.panel + i * group.panel_rows * kUnitBytes;
    for (const std::byte* row : group.rows) {
      std::memcpy(out, row + i * kUnitBytes, kUnitBytes);
      out += kUnitBytes;
    }
  }
}

using FourWords [[gnu::vector_size(16)]] = std::uint32_t;

FourWords load_words(const std::byte* from) {
  FourWords out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}

// Words [u, u + 4) of four rows: stored as four words of rows side by side, `step` bytes apart.
void turn(const std::byte* const* rows, std::size_t u, std::byte* out, std::size_t step) {
  const FourWords a = load_words(rows[0] + u * 4);
  const FourWords b = load_words(rows[1] + u * 4);
  const FourWords c = load_words(rows[2] + u * 4);
  const FourWords d = load_words(rows[3] + u * 4);
  const FourWords ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const FourWords ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const FourWords cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const FourWords cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const FourWords turned[4] = {__builtin_shufflevector(ab0, cd0, 0, 1, 4, 5),
                               __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7),
                               __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5),
                               __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7)};
  for (std::size_t i = 0; i < 4; ++i) std::memcpy(out + i * step, &turned[i], sizeof(turned[i]));
}

// Units of four bytes: sixteen at a time, a cache line of each row, and four rows at a time.
void interleave_words(const RowGroup& group) {
  constexpr std::size_t kBlock = 16;
  const std::size_t step = group.panel_rows * 4;
  for (std::size_t begin = 0; begin < group.n_units; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, group.n_units);
    for (std::size_t r = 0; r < group.rows.size(); r += 4) {
      std::byte* const out = group.panel + r * 4;
      std::size_t u = begin;
      if (r + 4 <= group.rows.size()) {
        for (; u + 4 <= end; u += 4) turn(group.rows.data() + r, u, out + u * step, step);
      }
      const std::size_t n_rows = std::min<std::size_t>(4, group.rows.size() - r);
      for (; u < end; ++u) {
        for (std::size_t i = 0; i < n_rows; ++i)
          std::memcpy(out + u * step + i * 4, group.rows[r + i] + u * 4, 4);
      }
    }
  }
}

// Words of 1, 2 or 4 bytes.
void interleave_words_of(std::size_t word_bytes, const RowGroup& group) {
  if (word_bytes == 4) return interleave_words(group);
  word_bytes == 2 ? interleave<2>(group) : interleave<1>(group);
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

  // Units of more are several of these.
  std::size_t unit_word() const { return std::min<std::size_t>(kernel.unit_bytes, 4); }
  // Of the first unit of row n.
  std::size_t unit(std::size_t n) const {
    return n / kernel.panel * panel_bytes + n % kernel.panel * unit_word();
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
        stride_(round_up(row_bytes_, kLine) + kLine),
        values_(kRowsAtOnce * stride_),
        scales_(places_.n_groups * places_.format.scale_bytes) {}

  // `encode(i, out)` fills out for row row_begin + i, or returns where its values lie already.
  template <typename Encode>
  void put(std::size_t row_begin, std::size_t n_rows, Encode encode) {
    const std::size_t panel = places_.kernel.panel;
    for (std::size_t i = 0; i < n_rows;) {
      const std::size_t first = row_begin + i;
      const std::size_t count = std::min({panel - first % panel, n_rows - i, kRowsAtOnce});
      for (std::size_t r = 0; r < count; ++r) {
        const EncodedRow row{values_.data() + r * stride_, scales_.data(), &sum_};
        rows_[r] = encode(i + r, row);
        put_parameters(first + r);
      }
      interleave_words_of(places_.unit_word(),
                          {image_.bytes.data() + places_.unit(first),
                           panel,
                           std::span(rows_).first(count),
                           row_bytes_ / places_.unit_word()});
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

  // Their values stay in a near cache, and fill whole lines of a panel.
  static constexpr std::size_t kRowsAtOnce = 16;
  static constexpr std::size_t kLine = 64;

  MatrixImage& image_;
  Places places_;
  std::size_t row_bytes_;
  std::size_t stride_;  // rows a power of two apart would meet in a few sets of the cache
  std::vector<std::byte> values_;  // of some rows
  std::vector<std::byte> scales_;  // of one row
  std::int32_t sum_ = 0;
  std::array<const std::byte*, kRowsAtOnce> rows_{};
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
  const auto encode_row = image.ops->kernel->encode_row;
  std::vector<float> wide(as_it_is || encode_row != nullptr ? 0 : k);
  packer.put(row_begin, rows.n_rows, [&](std::size_t i, const EncodedRow& out) -> const std::byte* {
    const std::byte* const from = rows.data + i * source_bytes;
    const std::size_t padding = packer.row_bytes() - (k * format.bits + 7) / 8;
    if (as_it_is && padding == 0) return from;
    std::memset(out.values + packer.row_bytes() - padding, 0, padding);
    if (as_it_is) {
      std::memcpy(out.values, from, source_bytes);
    } else if (encode_row != nullptr) {
      const EncodeArgs row{.x = from,
                           .type = cache_type(rows.type),
                           .k = k,
                           .values = reinterpret_cast<std::int8_t*>(out.values),
                           .scale = reinterpret_cast<float*>(out.scales),
                           .sum = out.sum};
      encode_row(&row);
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
    const std::size_t word = places.unit_word();
    for (std::size_t at = 0; at < n_units * kernel.unit_bytes; at += word)
      std::memcpy(values + at, from + at * kernel.panel, word);
    const std::size_t first_group = group == 0 ? 0 : i / group;
    const std::size_t end_group = group == 0 ? places.n_groups : (i + count + group - 1) / group;
    for (std::size_t g = first_group; g < end_group; ++g) {
      places.get_parameters(scales, row, g, step_scales + (g - first_group) * scale_bytes);
    }
    places.format.decode({values, step_scales, &sum}, count, out + i);
  }
}

}  // namespace coxswain::kernels
