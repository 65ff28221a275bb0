#include "model/weight_loader.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <xxhash.h>

#include "kernels/formats/widen.h"

namespace coxswain::model {
namespace {

using kernels::DenseRows;
using kernels::MatrixImage;
using kernels::WeightFormat;
using kernels::widen;
using tensor::DType;
using tensor::QuantScheme;

constexpr std::string_view kFloat32 = "float32";

void narrow(DType type, const float* from, std::size_t n, std::byte* out) {
  if (type == DType::kF32) {
    std::memcpy(out, from, n * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t bits =
        type == DType::kBf16 ? tensor::float_to_bf16(from[i]) : tensor::float_to_f16(from[i]);
    std::memcpy(out + i * sizeof(bits), &bits, sizeof(bits));
  }
}

// The parts of a layer that are stored in different tensors.
std::vector<MatrixMap> by_tensor(const MatrixMap& map) {
  std::vector<MatrixMap> out;
  for (const Rows& rows : map.rows) {
    if (out.empty() || out.back().rows.back().tensor != rows.tensor) out.push_back({{}, map.k});
    out.back().rows.push_back(rows);
  }
  return out;
}

}  // namespace

std::size_t Linear::n() const {
  std::size_t n = 0;
  for (const MatrixImage& piece : pieces) n += piece.n;
  return n;
}

WeightLoader::WeightLoader(const weights::Checkpoint& checkpoint,
                           const std::vector<std::string>& prefixes,
                           const kernels::KernelTable& table,
                           WeightReader::Progress progress,
                           kernels::ExecContext* exec,
                           WeightCache* cache,
                           std::shared_ptr<weights::SharedImage> shared,
                           ImageRoute route)
    : reader_(checkpoint, prefixes, std::move(progress), exec),
      table_(table),
      cache_(cache),
      shared_(std::move(shared)),
      route_(route),
      parts_(1) {}

Status WeightLoader::fill(tensor::AlignedBuffer& buffer,
                          std::size_t n_bytes,
                          const MatrixMap& map,
                          std::string_view form,
                          std::uint64_t layout_id,
                          base::FunctionRef<Status()> make) {
  const std::uint64_t parts[] = {XXH3_64bits(form.data(), form.size()), layout_id, map.n(), map.k};
  const std::uint64_t identity = XXH3_64bits(parts, sizeof parts);
  COXSWAIN_ASSIGN_OR_RETURN(const bool is_there, take_memory(buffer, n_bytes, identity));
  const std::size_t image = n_images_++;
  if (route_.store != nullptr && !route_.is_filling)
    route_.store->announce(identity, buffer.bytes());
  if (route_.places != nullptr && !route_.is_filling) {
    route_.places->push_back(buffer.bytes());
    return reader_.pass(map);
  }
  std::size_t n_arrived = 0;
  const auto arrived = [&](std::size_t n) {
    n_arrived = n;
    if (route_.store != nullptr) route_.store->arrived(image, n);
  };
  Status status;
  if (is_there) {
    status = reader_.pass(map);
  } else if (route_.source != nullptr) {
    status = route_.source->read(identity, buffer.bytes(), arrived);
    if (status.ok()) {
      if (cache_ != nullptr) cache_->pass(identity, buffer.bytes());
      return reader_.pass(map);
    }
    warnings_.push_back("the rest of the weights is loaded here: " + status.message());
    route_.source = nullptr;
    status = n_arrived == 0 ? fill_here(buffer.bytes(), map, identity, make)
                            : fill_rest(buffer, n_arrived, map, identity, make);
  } else {
    status = fill_here(buffer.bytes(), map, identity, make);
  }
  if (status.ok()) arrived(n_bytes);
  return status;
}

Status WeightLoader::fill_here(std::span<std::byte> bytes,
                               const MatrixMap& map,
                               std::uint64_t identity,
                               base::FunctionRef<Status()> make) {
  if (cache_ == nullptr) return make();
  if (cache_->read(identity, bytes)) return reader_.pass(map);
  COXSWAIN_RETURN_IF_ERROR(make());
  cache_->keep(identity, bytes);
  return {};
}

Status WeightLoader::fill_rest(tensor::AlignedBuffer& buffer,
                               std::size_t n_arrived,
                               const MatrixMap& map,
                               std::uint64_t identity,
                               base::FunctionRef<Status()> make) {
  COXSWAIN_ASSIGN_OR_RETURN(tensor::AlignedBuffer begun,
                            tensor::AlignedBuffer::allocate(buffer.size()));
  std::swap(buffer, begun);
  const Status status = fill_here(buffer.bytes(), map, identity, make);
  std::swap(buffer, begun);
  COXSWAIN_RETURN_IF_ERROR(status);
  if (cache_ != nullptr) cache_->move_last(buffer.bytes());
  if (std::memcmp(buffer.data(), begun.data(), n_arrived) != 0) {
    return {
        Code::kDataLoss,
        "other shards sent weights that are not those of the checkpoint: what they sent cannot be "
        "trusted"};
  }
  std::memcpy(buffer.data() + n_arrived, begun.data() + n_arrived, buffer.size() - n_arrived);
  return {};
}

Result<bool> WeightLoader::take_memory(tensor::AlignedBuffer& buffer,
                                       std::size_t n_bytes,
                                       std::uint64_t identity) {
  if (route_.is_filling) {
    if (n_images_ == route_.places->size() || (*route_.places)[n_images_].size() != n_bytes)
      return internal_error("a load asks for other images than before");
    // Which outlives the loader.
    static const auto kept = std::make_shared<const int>();
    buffer = tensor::AlignedBuffer::part_of(kept, (*route_.places)[n_images_]);
    return false;
  }
  if (shared_ != nullptr) return take_shared(buffer, n_bytes, identity);
  COXSWAIN_ASSIGN_OR_RETURN(buffer, tensor::AlignedBuffer::allocate(n_bytes));
  return false;
}

Result<bool> WeightLoader::take_shared(tensor::AlignedBuffer& buffer,
                                       std::size_t n_bytes,
                                       std::uint64_t identity) {
  COXSWAIN_ASSIGN_OR_RETURN(const auto bytes, shared_->next(identity, n_bytes));
  buffer = tensor::AlignedBuffer::part_of(shared_, bytes);
  return shared_->filled();
}

Result<Linear> WeightLoader::linear(const MatrixMap& map, const Holding& how) {
  Linear out;
  if (map.empty()) return out;
  out.tensor = map.rows.front().tensor;
  std::vector<MatrixMap> parts;
  if (how.keeps_codes && reader_.is_quantised(map)) parts = by_tensor(map);
  if (!parts.empty() && parts.size() <= kLinearPiecesMax) {
    for (const MatrixMap& part : parts) {
      COXSWAIN_ASSIGN_OR_RETURN(MatrixImage image, image_as_stored(part, *how.format));
      out.pieces.push_back(std::move(image));
    }
  } else {
    const WeightFormat* format = how.format;
    if (how.keeps_codes && parts.empty()) {
      COXSWAIN_ASSIGN_OR_RETURN(const DType type, reader_.stored_type(map));
      format = &kernels::plain_format(type);
    }
    COXSWAIN_ASSIGN_OR_RETURN(MatrixImage image, image_of_values(map, *format));
    out.pieces.push_back(std::move(image));
  }
  if (!route_.is_filling) {
    COXSWAIN_ASSIGN_OR_RETURN(out.bias, reader_.bias(map));
  }
  count(kFloat32, out.bias.size() * sizeof(float));
  std::vector<const WeightFormat*> formats;
  for (const MatrixImage& image : out.pieces) {
    count(image.ops->format->name, image.bytes.taken());
    bytes_of_[image.ops->format] += image.bytes.size();
    if (std::ranges::find(formats, image.ops->format) == formats.end())
      formats.push_back(image.ops->format);
  }
  limits_.n_pieces = std::max(limits_.n_pieces, out.pieces.size());
  limits_.n_forms = std::max(limits_.n_forms, formats.size());
  return out;
}

void WeightLoader::begin_part(std::string name) {
  const auto found =
      std::ranges::find(parts_, name, [](const auto& part) -> const auto& { return part.first; });
  part_ = static_cast<std::size_t>(found - parts_.begin());
  if (found == parts_.end())
    parts_.emplace_back(std::move(name), decltype(parts_)::value_type::second_type{});
}

void WeightLoader::count(std::string_view format, std::uint64_t bytes) {
  if (bytes != 0) parts_[part_].second[std::string(format)] += bytes;
}

std::vector<WeightShare> WeightLoader::shares() const {
  std::vector<WeightShare> out;
  for (const auto& [part, formats] : parts_) {
    const auto first = static_cast<std::ptrdiff_t>(out.size());
    for (const auto& [format, bytes] : formats) out.push_back({part, format, bytes});
    std::stable_sort(out.begin() + first,
                     out.end(),
                     [](const WeightShare& a, const WeightShare& b) { return a.bytes > b.bytes; });
  }
  return out;
}

std::uint64_t WeightLoader::bytes() const {
  std::uint64_t out = 0;
  for (const WeightShare& share : shares()) out += share.bytes;
  return out;
}

const WeightFormat& WeightLoader::main_format() const {
  return *std::ranges::max_element(bytes_of_, {}, [](const auto& entry) {
            return entry.second;
          })->first;
}

Result<MatrixImage> WeightLoader::image_as_stored(const MatrixMap& map,
                                                  const WeightFormat& otherwise) {
  if (!reader_.is_quantised(map)) {
    COXSWAIN_ASSIGN_OR_RETURN(const DType type, reader_.stored_type(map));
    return image_of_values(map, kernels::plain_format(type));
  }
  COXSWAIN_ASSIGN_OR_RETURN(const QuantScheme scheme, reader_.scheme_of(map));
  const kernels::LinearOps* const ops = scheme.bits == 0 ? nullptr : table_.ops_for(scheme);
  if (ops == nullptr) return image_of_values(map, otherwise);
  return image_of_codes(map, *ops);
}

Result<MatrixImage> WeightLoader::image_of_codes(const MatrixMap& map,
                                                 const kernels::LinearOps& ops) {
  MatrixImage image = kernels::outline_image(ops, map.n(), map.k);
  const auto pack = [&](std::size_t row_begin, const tensor::QuantRows& rows) {
    ops.pack_codes(image, row_begin, rows);
  };
  const std::size_t n_bytes = ops.layout(ops, map.n(), map.k).bytes;
  COXSWAIN_RETURN_IF_ERROR(fill(image.bytes, n_bytes, map, ops.format->name, ops.layout_id, [&] {
    return reader_.for_each_code_slice(map, pack);
  }));
  return image;
}

Result<MatrixImage> WeightLoader::image_of_values(const MatrixMap& map,
                                                  const WeightFormat& format) {
  if (format.inputs_max != 0 && map.k > format.inputs_max) {
    COXSWAIN_ASSIGN_OR_RETURN(const std::string name, reader_.name_of(map));
    return Status(Code::kUnimplemented,
                  name + " has " + std::to_string(map.k) + " inputs, " + std::string(format.name) +
                      " takes at most " + std::to_string(format.inputs_max));
  }
  const kernels::LinearOps& ops = table_.ops(format);
  MatrixImage image = kernels::outline_image(ops, map.n(), map.k);
  const auto pack = [&](std::size_t row_begin, const DenseRows& rows) {
    ops.pack(image, row_begin, rows);
  };
  const std::size_t n_bytes = ops.layout(ops, map.n(), map.k).bytes;
  COXSWAIN_RETURN_IF_ERROR(fill(image.bytes, n_bytes, map, format.name, ops.layout_id, [&] {
    return reader_.for_each_slice(map, pack);
  }));
  return image;
}

Result<RowTable> WeightLoader::rows(const MatrixMap& map, DType type) {
  RowTable out;
  if (map.empty()) return out;
  out.type = type;
  out.n_rows = map.n();
  out.width = map.k;
  const std::size_t row_bytes = map.k * tensor::size_of(type);
  const auto take = [&](std::size_t row_begin, const DenseRows& slice) {
    std::byte* to = out.data.data() + row_begin * row_bytes;
    if (slice.type == type) {
      std::memcpy(to, slice.data, slice.n_rows * row_bytes);
      return;
    }
    std::vector<float> wide(map.k);
    for (std::size_t i = 0; i < slice.n_rows; ++i) {
      widen(slice.data + i * map.k * tensor::size_of(slice.type), slice.type, map.k, wide.data());
      narrow(type, wide.data(), map.k, to + i * row_bytes);
    }
  };
  const std::size_t n_bytes = out.n_rows * row_bytes;
  COXSWAIN_RETURN_IF_ERROR(fill(out.data, n_bytes, map, tensor::name_of(type), 0, [&] {
    return reader_.for_each_slice(map, take);
  }));
  count(tensor::name_of(type), out.data.taken());
  return out;
}

Result<std::vector<float>> WeightLoader::vector(const VectorMap& map) {
  std::vector<float> out;
  if (route_.is_filling) return out;  // the first pass has read it
  for (const std::string& name : map.tensors) {
    COXSWAIN_ASSIGN_OR_RETURN(const std::vector<float> values,
                              reader_.floats(name, map.size / map.tensors.size()));
    out.insert(out.end(), values.begin(), values.end());
  }
  count(kFloat32, out.size() * sizeof(float));
  return out;
}

Result<NormWeights> WeightLoader::norm(const NormMap& map) {
  NormWeights out;
  COXSWAIN_ASSIGN_OR_RETURN(out.weight, vector(map.weight));
  COXSWAIN_ASSIGN_OR_RETURN(out.bias, vector(map.bias));
  return out;
}

}  // namespace coxswain::model
