#pragma once
// How a weight matrix is held and multiplied.
//
// A WeightFormat says what a row becomes: plain floats, or integer codes with scales. It is the same on every set. A
// set's LinearOps say where the values of a row lie (panels, in the order in which the set's kernel reads them) and
// how they are multiplied. A MatrixImage is one matrix in that layout: one piece of memory, panels first, then
// parameters; nothing beside it is needed to multiply or to read it back.
//
// Law 1 for quantised formats: activations are quantised once a row, products are added up as integers inside a group
// of inputs that share a scale, and each group costs one rounding, groups ascending:
//   acc = acc + float(isum) * scale      (a multiplication, then an addition, never fused)
//   y   = acc * row_scale
// Integers are exact in any order, so every set and every number of rows gives equal bits.
//
// Adding a format: formats/<name>.h (how codes lie in a unit) and formats/<name>.cc (how rows become codes), and a
// line in formats/list.inc. Every set then serves it: with an entry of its own, or with the one of the set below.
//
// Thread rule: formats and ops live as long as the process; an image is immutable once it is packed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <coxswain/status.h>

#include "tensor/aligned_buffer.h"
#include "tensor/dtype.h"
#include "tensor/quant.h"

namespace coxswain::kernels {

struct LinearKernel;

// Stable: part of cache keys and of images on disk. An id is never used again for something else.
using FormatId = std::uint16_t;

// One row as a format holds it, on its way into panels or back.
struct EncodedRow {
  std::byte* values = nullptr;  // [ceil(k / 16) * 2 * bits], in units of the format
  std::byte* scales = nullptr;  // [n_groups] of scale_bytes, group 0 first
  std::int32_t* sum = nullptr;  // of the row's values as integers, where the format keeps it
};

struct WeightFormat {
  FormatId id = 0;
  std::string_view name;   // as in --dtype and --quantize
  std::uint32_t bits = 0;  // of a value
  // Quantised formats (scheme.bits != 0): whose rows are taken as they are, code by code. Others hold `plain` floats.
  tensor::QuantScheme scheme;
  tensor::DType plain = tensor::DType::kF32;
  std::uint32_t scale_bytes = 0;  // of each scale, 0: none
  bool has_sums = false;          // a sum of integers for each output
  bool is_option = true;          // of --quantize, if quantised; others only hold what files store
  std::size_t inputs_max = 0;     // above it a sum of products could leave 32 bits; 0: any number

  // [k] floats to what the row holds. Values that are not finite make every output of the row (or of its group) NaN.
  void (*encode)(const float* x, std::size_t k, const EncodedRow& out) = nullptr;
  // The same from codes of the format's own scheme. Null for plain formats.
  void (*encode_codes)(const tensor::QuantRows& rows,
                       std::size_t row,
                       const EncodedRow& out) = nullptr;
  // The first `count` values of what `in` points at, which starts at a multiple of kDecodeStep.
  void (*decode)(const EncodedRow& in, std::size_t count, float* out) = nullptr;

  bool is_quantised() const { return scheme.bits != 0; }
  // Whether rows of this scheme can be held code by code: of the format's own, or with larger groups, whose parameters
  // are then repeated.
  bool takes(const tensor::QuantScheme& rows) const;
  std::size_t n_groups(std::size_t k) const { return scale_bytes == 0 ? 0 : scheme.n_groups(k); }
};

// A multiple of every group and unit.
inline constexpr std::size_t kDecodeStep = 512;

// Every format, in the order of formats/list.inc.
std::span<const WeightFormat* const> weight_formats();
// Null if there is none of that name.
const WeightFormat* find_format(std::string_view name);
// The formats that weights can be quantised to at load, as text for messages: "int8, int4, ...". (Formats that are no
// options are not among these.)
std::string_view quantised_names();
// The format of plain floats of this type.
const WeightFormat& plain_format(tensor::DType type);

// Those that others than the kernels name; formats/all.h has the whole list.
namespace formats {
extern const WeightFormat kFloat32;
extern const WeightFormat kBfloat16;
extern const WeightFormat kInt8;
extern const WeightFormat kInt4;
extern const WeightFormat kInt4G128;
}  // namespace formats

struct LinearOps;

// A matrix [n, k] (n outputs, k inputs) as one set multiplies it.
struct MatrixImage {
  const LinearOps* ops = nullptr;  // format and layout; null: empty
  std::size_t n = 0;
  std::size_t k = 0;
  tensor::AlignedBuffer bytes;
  std::size_t scales_at = 0;  // [n / panel][n_groups][panel], zeros beyond n
  std::size_t sums_at = 0;    // [n rounded up to panels]

  bool empty() const { return n == 0; }
};

// Rows of floats (kF32, kBf16 or kF16), [n_rows, k] without gaps.
struct DenseRows {
  const std::byte* data = nullptr;
  tensor::DType type = tensor::DType::kF32;
  std::size_t n_rows = 0;
};

// What a product of activations and weights is made of.
enum class Arithmetic : std::uint8_t {
  kFloat32,
  kBfloat16,  // activations rounded to bfloat16, sums in float32
  kInteger,   // activations quantised a row, sums exact
};

// One (set, format).
struct LinearOps {
  const WeightFormat* format = nullptr;
  std::uint32_t layout_id = 0;  // two layouts with equal ids hold equal bytes
  Arithmetic arithmetic = Arithmetic::kFloat32;
  const LinearKernel* kernel = nullptr;  // of CPU sets

  // An image for [n, k] with offsets filled in and no memory yet; `bytes` is what it needs.
  struct Layout {
    std::size_t bytes = 0;
    std::size_t scales_at = 0;
    std::size_t sums_at = 0;
  };
  Layout (*layout)(const LinearOps& ops, std::size_t n, std::size_t k) = nullptr;
  // Rows [row_begin, row_begin + n_rows) of the image. Calls for different rows may run at once, those of pack_codes
  // too: each writes the bytes of its rows alone.
  void (*pack)(MatrixImage& image, std::size_t row_begin, const DenseRows& rows) = nullptr;
  // REQUIRES: format->takes(rows.scheme), tensor::check(rows) is ok.
  void (*pack_codes)(MatrixImage& image,
                     std::size_t row_begin,
                     const tensor::QuantRows& rows) = nullptr;
  // Row `row` as it is multiplied, out [k]: a tied embedding needs no copy of its own.
  void (*unpack_row)(const MatrixImage& image, std::size_t row, float* out) = nullptr;
};

// An image of zeros to be packed. Errors: kResourceExhausted.
Result<MatrixImage> make_image(const LinearOps& ops, std::size_t n, std::size_t k);
// The same without its bytes: the caller gives it as many as its layout says.
MatrixImage outline_image(const LinearOps& ops, std::size_t n, std::size_t k);

// Stacked pieces (q, k, v; gate and up) as one image. Errors: kResourceExhausted.
Result<MatrixImage> pack_matrix(const LinearOps& ops,
                                std::size_t k,
                                std::span<const DenseRows> pieces);

}  // namespace coxswain::kernels
