#include "weights/gguf_file.h"

#include <utility>

#include "weights/gguf_blocks.h"

namespace coxswain::weights {
namespace {

// Types of floats keep their own kind, so that they are packed as they are.
StoredType stored_type(std::string_view name) {
  if (name == "F32") return StoredType::kF32;
  if (name == "F16") return StoredType::kF16;
  if (name == "BF16") return StoredType::kBf16;
  return StoredType::kBlocks;
}

// One tensor for each expert. Matrices of no rows take no room in a file, which then could claim any number of them.
Status add_experts(TensorFile& file,
                   const TensorInfo& all,
                   std::uint64_t experts_max,
                   const std::string& place) {
  const std::size_t at = all.name.find("{}");
  if (all.shape.size() != 3 || all.n_bytes() == 0)
    return {Code::kDataLoss,
            place + "has shape " + shape_text(all.shape) + ", not one matrix for each expert"};
  const std::uint64_t n_experts = all.shape.front();
  if (n_experts > experts_max)
    return {Code::kDataLoss,
            place + "has shape " + shape_text(all.shape) + ", at most " +
                std::to_string(experts_max) + " experts are read"};
  const std::uint64_t n_bytes = all.n_bytes() / n_experts;  // rows are whole blocks
  for (std::uint64_t e = 0; e < n_experts; ++e) {
    TensorInfo one = all;
    one.name.replace(at, 2, std::to_string(e));
    one.shape.erase(one.shape.begin());
    one.begin = all.begin + e * n_bytes;
    one.end = one.begin + n_bytes;
    if (!file.add(std::move(one))) return {Code::kDataLoss, place + "is there twice"};
  }
  return {};
}

}  // namespace

Result<TensorFile> open_gguf(const std::string& path,
                             const gguf::Header& header,
                             const GgufNaming& naming) {
  COXSWAIN_ASSIGN_OR_RETURN(TensorFile file, TensorFile::open(path));
  for (const gguf::TensorInfo& from : header.tensors()) {
    const std::string place = path + ": tensor \"" + std::string(from.name) + "\" ";
    const GgufName name = naming(from.name);
    if (name.is_ignored) continue;
    if (name.name.empty())
      return Status(Code::kUnimplemented,
                    ErrorKind::kValidation,
                    place + "is not known in models of this architecture");
    TensorInfo to;
    to.name = name.name;
    to.type = stored_type(from.type->name);
    to.blocks = {from.type->name,
                 from.type->block_values,
                 from.type->block_bytes,
                 find_block_decoder(from.type->name),
                 find_block_codes(from.type->name)};
    if (to.blocks.decode == nullptr)
      return Status(
          Code::kDataLoss,
          place + "has type " + std::string(from.type->name) + ", which holds no weights");
    to.shape = from.shape;
    if (name.is_row && to.shape.size() == 1) to.shape.insert(to.shape.begin(), 1);
    to.begin = from.begin;
    to.end = from.begin + from.n_bytes;
    if (name.experts_max > 0) {
      COXSWAIN_RETURN_IF_ERROR(add_experts(file, to, name.experts_max, place));
    } else if (!file.add(std::move(to))) {
      return Status(Code::kDataLoss, place + "is there twice");
    }
  }
  return file;
}

}  // namespace coxswain::weights
