#include "model/weight_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>
#include <xxhash.h>

#include "base/numbers.h"
#include "kernels/formats/widen.h"

namespace coxswain::model {
namespace {

using kernels::widen;
using tensor::DType;
using tensor::QuantScheme;

constexpr std::string_view kNotFinite =
    "has scales or values that are not finite, or not once they are multiplied";

// Slices have about this many bytes, so that they are still in a second-level cache when they are packed, and a
// multiple of as many rows as are packed at once.
constexpr std::uint64_t kSliceBytes = std::uint64_t{512} << 10;
constexpr std::uint64_t kSliceRowMultiple = 16;

std::uint64_t rows_per_slice(std::uint64_t row_bytes) {
  const std::uint64_t rows =
      kSliceBytes / std::max<std::uint64_t>(row_bytes, 1) / kSliceRowMultiple * kSliceRowMultiple;
  return std::max(rows, kSliceRowMultiple);
}

std::string tensor_text(const weights::Checkpoint::Located& at) {
  return at.file->path() + ": tensor \"" + at.tensor->name + "\"";
}

Status tensor_error(const weights::Checkpoint::Located& at, const std::string& what) {
  return {Code::kInvalidArgument, tensor_text(at) + " " + what};
}

// Quantised values are decoded.
Result<DType> type_of_values(const weights::Checkpoint::Located& at) {
  if (at.derived != nullptr || at.tensor->type == weights::StoredType::kBlocks) return DType::kF32;
  if (const auto type = weights::float_type(at.tensor->type)) return *type;
  return tensor_error(at,
                      "has type " + std::string(at.tensor->type_name()) + ", not F32, BF16 or F16");
}

std::uint64_t n_elements(const std::vector<std::uint64_t>& shape) {
  std::uint64_t n = 1;
  // Proven not to overflow when the file was opened.
  for (const std::uint64_t dimension : shape) n *= dimension;
  return n;
}

// [.., n, k] of a tensor that the config asks for as [.., k, n].
bool is_turned(std::vector<std::uint64_t> shape, const std::vector<std::uint64_t>& wanted) {
  if (shape.size() < 2) return false;
  std::swap(shape[shape.size() - 2], shape.back());
  return shape == wanted;
}

// n of one [n, k] or, transposed, [k, n] matrix of the tensor.
std::uint64_t matrix_rows(const Rows& rows) {
  return rows.transposed ? rows.shape.back() : rows.shape[rows.shape.size() - 2];
}

// Of scales as they are stored.
bool is_finite(tensor::ScaleType type, std::span<const std::byte> scales) {
  const std::size_t size = tensor::size_of(type);
  for (std::size_t i = 0; i + size <= scales.size(); i += size) {
    float value = 0.0F;
    if (type == tensor::ScaleType::kF32) {
      std::memcpy(&value, scales.data() + i, sizeof(value));
    } else if (type != tensor::ScaleType::kE8M0) {
      widen(scales.data() + i,
            type == tensor::ScaleType::kF16 ? DType::kF16 : DType::kBf16,
            1,
            &value);
    } else if (scales[i] == std::byte{255}) {
      return false;
    }
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// Masks and tables that older programs stored beside the weights.
bool is_carried_along(std::string_view name) {
  constexpr std::array<std::string_view, 7> kEndings{".attn.bias",
                                                     ".attn.masked_bias",
                                                     ".attention.bias",
                                                     ".attention.masked_bias",
                                                     ".causal_mask",
                                                     ".embed_positions",
                                                     ".inv_freq"};
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) {
    return name.ends_with(ending);
  });
}

}  // namespace

WeightReader::WeightReader(const weights::Checkpoint& checkpoint,
                           const std::vector<std::string>& prefixes,
                           Progress progress,
                           kernels::ExecContext* exec)
    : checkpoint_(checkpoint),
      prefixes_(prefixes),
      progress_(std::move(progress)),
      exec_(exec),
      rooms_(exec == nullptr ? 1 : exec->n_threads()),
      bytes_total_(checkpoint.n_bytes()) {}

weights::Checkpoint::Located WeightReader::find(const std::string& name) const {
  for (const std::string& prefix : prefixes_) {
    if (const auto located = checkpoint_.find(prefix + name)) return located;
  }
  return {};
}

Result<WeightReader::Source> WeightReader::source(const Rows& rows, std::uint64_t k) const {
  Source out;
  out.at = find(rows.tensor);
  if (!out.at && !rows.otherwise.empty()) out.at = find(rows.otherwise);
  if (!out.at) {
    return Status(Code::kInvalidArgument,
                  checkpoint_.files().front().path() + ": tensor \"" + rows.tensor +
                      "\" is missing" +
                      (prefixes_.size() > 1 ? " (with and without a prefix)" : ""));
  }
  // Derived tensors hold outputs first whatever the plain one of the family holds.
  const bool is_derived = out.at.derived != nullptr;
  out.transposed = rows.transposed && !is_derived;
  const bool has_shape = is_derived && rows.transposed ? is_turned(out.at.tensor->shape, rows.shape)
                                                       : out.at.tensor->shape == rows.shape;
  if (!has_shape) {
    return tensor_error(out.at,
                        "has shape " + weights::shape_text(out.at.tensor->shape) +
                            ", the config asks for " + weights::shape_text(rows.shape));
  }
  COXSWAIN_ASSIGN_OR_RETURN(out.type, type_of_values(out.at));
  // Several [n, k] matrices may lie one after the other in a tensor.
  const std::uint64_t n_all = n_elements(rows.shape);
  out.n = matrix_rows(rows);
  const bool fits = (rows.transposed || rows.shape.back() == k) && out.n > 0 &&
                    (rows.index + 1) * out.n * k <= n_all;
  if (!fits || rows.count == 0 || rows.first + (rows.count - 1) * rows.step >= out.n) {
    return internal_error("tensor map of \"" + rows.tensor + "\" does not fit its shape");
  }
  return out;
}

Result<WeightReader::Source> WeightReader::open(const Rows& rows, std::uint64_t k) {
  COXSWAIN_ASSIGN_OR_RETURN(const Source out, source(rows, k));
  known_.insert(out.at.tensor);
  if (out.at.derived != nullptr) COXSWAIN_RETURN_IF_ERROR(open_derived(*out.at.derived));
  return out;
}

Status WeightReader::pass(const MatrixMap& map) {
  for (const Rows& rows : map.rows) {
    COXSWAIN_ASSIGN_OR_RETURN(const Source passed, source(rows, map.k));
    if (known_.insert(passed.at.tensor).second && passed.at.derived == nullptr)
      bytes_read_ += passed.at.tensor->n_bytes();
    if (passed.at.derived == nullptr) continue;
    for (const weights::StoredTensor& part : passed.at.derived->parts) {
      if (known_.insert(part.info).second) bytes_read_ += part.info->n_bytes();
    }
  }
  report_progress();
  return {};
}

Result<std::string> WeightReader::name_of(const MatrixMap& map) const {
  COXSWAIN_ASSIGN_OR_RETURN(const Source first, source(map.rows.front(), map.k));
  return tensor_text(first.at);
}

Result<DType> WeightReader::stored_type(const MatrixMap& map) const {
  COXSWAIN_ASSIGN_OR_RETURN(const Source first, source(map.rows.front(), map.k));
  return first.type;
}

Result<bool> WeightReader::other_name_differs(const Rows& rows) {
  if (rows.otherwise.empty()) return false;
  const auto first = find(rows.tensor);
  const auto other = find(rows.otherwise);
  if (!first || !other) return false;
  if (first.derived != nullptr || other.derived != nullptr) return true;
  const std::uint64_t n_bytes = first.tensor->n_bytes();
  if (first.tensor->type != other.tensor->type || n_bytes != other.tensor->n_bytes()) return true;
  std::vector<std::byte> mine;
  std::vector<std::byte> its;
  for (std::uint64_t at = 0; at < n_bytes; at += kSliceBytes) {
    mine.resize(std::min(kSliceBytes, n_bytes - at));
    its.resize(mine.size());
    COXSWAIN_RETURN_IF_ERROR(first.read(at, mine));
    COXSWAIN_RETURN_IF_ERROR(other.read(at, its));
    if (mine != its) return true;
  }
  known_.insert(other.tensor);
  return false;
}

std::vector<std::string> WeightReader::unread() const {
  std::vector<std::string> out;
  for (const weights::TensorFile& file : checkpoint_.files()) {
    for (const weights::TensorInfo& tensor : file.tensors()) {
      const bool is_weight =
          (weights::float_type(tensor.type) || tensor.type == weights::StoredType::kBlocks) &&
          !is_carried_along(tensor.name);
      if (is_weight && !known_.contains(&tensor)) out.push_back(tensor.name);
    }
  }
  return out;
}

void WeightReader::report_progress() const {
  if (progress_) progress_(std::min(bytes_read_.load(), bytes_total_), bytes_total_);
}

Status WeightReader::run(std::size_t n_tasks, Task task) {
  if (exec_ != nullptr && n_tasks > 1) return run_threaded(n_tasks, task);
  for (std::size_t i = 0; i < n_tasks; ++i) {
    COXSWAIN_RETURN_IF_ERROR(task(i, rooms_.front()));
    report_progress();
  }
  return {};
}

Status WeightReader::run_threaded(std::size_t n_tasks, Task task) {
  base::Mutex mu;
  Status error;
  std::atomic<std::size_t> failed{n_tasks};
  exec_->pool().run(n_tasks, [&](std::size_t i, std::size_t worker) {
    if (i > failed.load()) return;
    Status status = task(i, rooms_[worker]);
    if (!status.ok()) {
      const base::MutexLock lock(mu);
      if (i >= failed.load()) return;
      failed.store(i);
      error = std::move(status);
    }
    if (worker == 0) report_progress();
  });
  return error;
}

Status WeightReader::read(const weights::Checkpoint::Located& at,
                          std::uint64_t offset,
                          std::span<std::byte> out) {
  COXSWAIN_RETURN_IF_ERROR(at.read(offset, out));
  const std::string& name = at.tensor->name;
  // A sum, so that it does not depend on the order in which tensors are read.
  fingerprint_ +=
      XXH3_64bits_withSeed(out.data(), out.size(), XXH3_64bits(name.data(), name.size()) + offset);
  bytes_read_ += out.size();
  return {};
}

Status WeightReader::read_values(const Source& source,
                                 std::uint64_t first,
                                 std::span<std::byte> out,
                                 std::vector<std::byte>& blocks) {
  const std::size_t element = tensor::size_of(source.type);
  const std::uint64_t n_values = out.size() / element;
  auto* const values = reinterpret_cast<float*>(out.data());
  if (source.at.derived != nullptr) return derive_values(source, first, {values, n_values});
  if (source.at.tensor->type != weights::StoredType::kBlocks)
    return read(source.at, first * element, out);
  const weights::BlockType& type = source.at.tensor->blocks;
  if (first % type.values != 0 || n_values % type.values != 0)
    return tensor_error(source.at,
                        "has rows that are no whole blocks of " + std::string(type.name));
  blocks.resize(n_values / type.values * type.bytes);
  COXSWAIN_RETURN_IF_ERROR(read(source.at, first / type.values * type.bytes, blocks));
  for (std::uint64_t b = 0; b < n_values / type.values; ++b)
    type.decode(blocks.data() + b * type.bytes, values + b * type.values);
  return {};
}

Status WeightReader::open_derived(const weights::DerivedTensor& derived) {
  if (derived_ == &derived) return {};
  const base::MutexLock lock(rows_mu_);
  rows_.reset();  // before the next takes memory
  derived_ = nullptr;
  for (const weights::StoredTensor& part : derived.parts) known_.insert(part.info);
  COXSWAIN_ASSIGN_OR_RETURN(rows_,
                            derived.open([this](const weights::StoredTensor& part,
                                                std::uint64_t offset,
                                                std::span<std::byte> bytes) {
                              return read({part.info, part.file}, offset, bytes);
                            }));
  derived_ = &derived;
  return {};
}

Status WeightReader::derive_values(const Source& source,
                                   std::uint64_t first,
                                   std::span<float> out) {
  const weights::DerivedTensor& derived = *source.at.derived;
  const std::uint64_t k = derived.info.shape.back();
  if (first % k != 0 || out.size() % k != 0)
    return internal_error("parts of rows of \"" + derived.info.name + "\" are asked for");
  {
    const base::MutexLock lock(rows_mu_);
    COXSWAIN_RETURN_IF_ERROR(rows_->read(first / k, out.size() / k, out.data()));
  }
  for (const float value : out) {
    if (!std::isfinite(value)) return tensor_error(source.at, std::string(kNotFinite));
  }
  return {};
}

bool WeightReader::is_quantised(const MatrixMap& map) const {
  return std::ranges::any_of(map.rows, [&](const Rows& rows) {
    auto at = find(rows.tensor);
    if (!at && !rows.otherwise.empty()) at = find(rows.otherwise);
    return at && (at.derived != nullptr || at.tensor->type == weights::StoredType::kBlocks);
  });
}

Result<QuantScheme> WeightReader::scheme_of(const MatrixMap& map) {
  const std::uint64_t k = map.k;
  COXSWAIN_ASSIGN_OR_RETURN(const Source source, this->source(map.rows.front(), k));
  if (source.at.derived != nullptr) {
    COXSWAIN_RETURN_IF_ERROR(open_derived(*source.at.derived));
    const base::MutexLock lock(rows_mu_);
    return rows_->scheme();
  }
  const weights::BlockType& type = source.at.tensor->blocks;
  const bool has_codes = source.at.tensor->type == weights::StoredType::kBlocks &&
                         type.codes != nullptr && !source.transposed && k % type.values == 0;
  return has_codes ? type.codes->scheme : QuantScheme{};
}

Status WeightReader::read_codes(
    const Source& source, std::uint64_t k, std::uint64_t first, std::uint64_t n, Room& room) {
  tensor::CodeRows& out = room.codes;
  if (source.at.derived != nullptr) {
    {
      const base::MutexLock lock(rows_mu_);
      COXSWAIN_RETURN_IF_ERROR(rows_->read_codes(first, n, out));
    }
    const std::size_t n_groups = out.scheme.n_groups(k);
    if (!is_finite(out.scheme.scale, out.scales) ||
        (out.offsets.size() > n * n_groups && !is_finite(out.scheme.scale, out.offsets)))
      return tensor_error(source.at, std::string(kNotFinite));
    return {};
  }
  const weights::BlockType& type = source.at.tensor->blocks;
  const QuantScheme& scheme = type.codes->scheme;
  const std::uint64_t n_blocks = n * k / type.values;
  room.blocks.resize(n_blocks * type.bytes);
  COXSWAIN_RETURN_IF_ERROR(read(source.at, first * k / type.values * type.bytes, room.blocks));
  out.resize(scheme, n, k);
  const std::size_t scale_bytes = tensor::size_of(scheme.scale);
  const std::size_t n_subs = scheme.sub_group == 0 ? 0 : type.values / scheme.sub_group;
  for (std::uint64_t b = 0; b < n_blocks; ++b) {
    weights::BlockParts parts;
    parts.codes = out.codes.data() + b * type.values;
    parts.scale = out.scales.data() + b * scale_bytes;
    parts.offset = out.offsets.empty() ? nullptr : out.offsets.data() + b * scale_bytes;
    parts.sub_scales = out.sub_scales.data() + b * n_subs;
    parts.sub_minimums = parts.sub_scales + n_blocks * n_subs;
    type.codes->split(room.blocks.data() + b * type.bytes, parts);
  }
  return {};
}

Status WeightReader::for_each_slice(const MatrixMap& map, TakeRows take) {
  std::size_t row_begin = 0;
  for (const Rows& rows : map.rows) {
    COXSWAIN_ASSIGN_OR_RETURN(const Source from, open(rows, map.k));
    const bool straight = !from.transposed && rows.step == 1;
    COXSWAIN_RETURN_IF_ERROR(straight ? straight_slices(rows, from, map.k, row_begin, take)
                                      : gathered_slices(rows, from, map.k, row_begin, take));
    row_begin += rows.count;
  }
  return {};
}

Status WeightReader::for_each_code_slice(const MatrixMap& map, TakeCodes take) {
  std::size_t row_begin = 0;
  for (const Rows& rows : map.rows) {
    COXSWAIN_ASSIGN_OR_RETURN(const Source from, open(rows, map.k));
    const std::uint64_t step = rows.step == 1 ? rows_per_slice(map.k) : 1;
    const auto read_slice = [&](std::size_t i, Room& room) -> Status {
      const std::uint64_t at = i * step;
      const std::uint64_t n = std::min(step, rows.count - at);
      const std::uint64_t first = rows.index * from.n + rows.first + at * rows.step;
      COXSWAIN_RETURN_IF_ERROR(read_codes(from, map.k, first, n, room));
      take(row_begin + at, room.codes.view());
      return {};
    };
    COXSWAIN_RETURN_IF_ERROR(run(base::ceil_div(rows.count, step), read_slice));
    row_begin += rows.count;
  }
  return {};
}

Status WeightReader::straight_slices(
    const Rows& rows, const Source& source, std::uint64_t k, std::size_t row_begin, TakeRows take) {
  const std::size_t row_bytes = k * tensor::size_of(source.type);
  const std::uint64_t step = rows_per_slice(row_bytes);
  return run(base::ceil_div(rows.count, step), [&](std::size_t i, Room& room) -> Status {
    const std::uint64_t at = i * step;
    const std::uint64_t n = std::min(step, rows.count - at);
    room.values.resize(n * row_bytes);
    COXSWAIN_RETURN_IF_ERROR(read_values(
        source, (rows.index * source.n + rows.first + at) * k, room.values, room.blocks));
    take(row_begin + at, {room.values.data(), source.type, n});
    return {};
  });
}

Status WeightReader::read_whole(const Rows& rows, const Source& source, std::uint64_t k) {
  const std::pair of(source.at.tensor, rows.index);
  if (whole_of_ == of) return {};
  whole_of_ = {};
  const std::size_t element = tensor::size_of(source.type);
  whole_.resize(source.n * k * element);
  // As they are stored.
  const std::uint64_t width = source.transposed ? source.n : k;
  const std::uint64_t n_rows = source.transposed ? k : source.n;
  const std::uint64_t step = rows_per_slice(width * element);
  const auto read_slice = [&](std::size_t i, Room& room) -> Status {
    const std::uint64_t first = i * step * width;
    const std::uint64_t n = std::min(step * width, source.n * k - first);
    return read_values(source,
                       rows.index * source.n * k + first,
                       std::span(whole_).subspan(first * element, n * element),
                       room.blocks);
  };
  COXSWAIN_RETURN_IF_ERROR(run(base::ceil_div(n_rows, step), read_slice));
  whole_of_ = of;
  return {};
}

Status WeightReader::gathered_slices(
    const Rows& rows, const Source& source, std::uint64_t k, std::size_t row_begin, TakeRows take) {
  COXSWAIN_RETURN_IF_ERROR(read_whole(rows, source, k));
  const std::size_t element = tensor::size_of(source.type);
  const std::uint64_t step = rows_per_slice(k * element);
  return run(base::ceil_div(rows.count, step), [&](std::size_t slice, Room& room) -> Status {
    const std::uint64_t at = slice * step;
    const std::uint64_t n = std::min(step, rows.count - at);
    room.values.resize(n * k * element);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t row = rows.first + (at + i) * rows.step;
      for (std::uint64_t j = 0; j < k; ++j) {
        const std::uint64_t from = source.transposed ? j * source.n + row : row * k + j;
        std::memcpy(
            room.values.data() + (i * k + j) * element, whole_.data() + from * element, element);
      }
    }
    take(row_begin + at, {room.values.data(), source.type, n});
    return {};
  });
}

Result<std::vector<float>> WeightReader::floats(const std::string& name, std::uint64_t size) {
  const auto at = find(name);
  if (!at)
    return Status(Code::kInvalidArgument,
                  checkpoint_.files().front().path() + ": tensor \"" + name + "\" is missing");
  const std::uint64_t stored = n_elements(at.tensor->shape);
  if (stored != size) {
    return tensor_error(at,
                        "has shape " + weights::shape_text(at.tensor->shape) +
                            ", the config asks for " + std::to_string(size) + " values");
  }
  COXSWAIN_ASSIGN_OR_RETURN(const DType type, type_of_values(at));
  const Source source{at, type, 0, false};
  known_.insert(at.tensor);
  if (at.derived != nullptr) COXSWAIN_RETURN_IF_ERROR(open_derived(*at.derived));
  Room& room = rooms_.front();
  room.values.resize(stored * tensor::size_of(type));
  COXSWAIN_RETURN_IF_ERROR(read_values(source, 0, room.values, room.blocks));
  std::vector<float> out(stored);
  widen(room.values.data(), type, stored, out.data());
  return out;
}

Result<float> WeightReader::scale_or_one(std::initializer_list<std::string> names) {
  for (const std::string& name : names) {
    const auto at = find(name);
    if (!at) continue;
    COXSWAIN_ASSIGN_OR_RETURN(const std::vector<float> values, floats(name, 1));
    if (!std::isfinite(values.front()) || values.front() <= 0.0F)
      return tensor_error(at, "is a scale, which has to be a finite number above 0");
    return values.front();
  }
  return 1.0F;
}

Result<std::vector<float>> WeightReader::bias(const MatrixMap& map) {
  std::vector<float> out;
  for (const Rows& rows : map.rows) {
    if (rows.bias.empty()) continue;
    const std::uint64_t n = matrix_rows(rows);
    COXSWAIN_ASSIGN_OR_RETURN(const std::vector<float> all,
                              floats(rows.bias, n_elements(rows.shape) / map.k));
    for (std::uint64_t i = 0; i < rows.count; ++i)
      out.push_back(all[rows.index * n + rows.first + i * rows.step]);
  }
  if (!out.empty() && out.size() != map.n())
    return internal_error("a bias of \"" + map.rows.front().tensor + "\" covers only some rows");
  return out;
}

}  // namespace coxswain::model
