// A checkpoint that is stored quantised: quantization_config, NUL, header of a safetensors file, NUL, its data.
//
// Whatever is accepted gives every row of its weights, and the same in pieces.

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/fuzz_input.h"
#include "fuzz/memory_file.h"
#include "json/json.h"
#include "model/stored_quant_config.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

namespace {

using coxswain::fuzz::require;
namespace model = coxswain::model;
namespace weights = coxswain::weights;

coxswain::Status read_part(const weights::StoredTensor& part,
                           std::uint64_t offset,
                           std::span<std::byte> out) {
  require(offset <= part.info->n_bytes() && out.size() <= part.info->n_bytes() - offset,
          "a reader stays in its part");
  return part.file->read(*part.info, offset, out);
}

void check_rows(const weights::DerivedTensor& tensor, std::size_t file_bytes) {
  std::uint64_t n = 1;
  for (const std::uint64_t extent : tensor.info.shape) {
    require(extent > 0, "no extent is zero");
    require(!__builtin_mul_overflow(n, extent, &n), "sizes do not overflow");
  }
  require(n <= 16 * file_bytes, "no more values than codes");
  const auto rows = tensor.open(read_part);
  if (!rows.ok()) return require(!rows.status().message().empty(), "an error says why");
  const std::uint64_t k = tensor.info.shape.back();
  std::vector<float> whole(n);
  std::vector<float> pieces(n);
  require((*rows)->read(0, n / k, whole.data()).ok(), "rows are there");
  for (std::uint64_t row = n / k; row-- > 0;)
    require((*rows)->read(row, 1, pieces.data() + row * k).ok(), "a row is there");
  require(std::memcmp(whole.data(), pieces.data(), n * sizeof(float)) == 0, "pieces are the whole");
  if ((*rows)->scheme().bits == 0) return;
  coxswain::tensor::CodeRows codes;
  require((*rows)->read_codes(0, n / k, codes).ok(), "rows are there as codes");
  require(coxswain::tensor::check(codes.view()).ok(), "codes fit their scheme");
  for (std::uint64_t row = 0; row < n / k; ++row)
    coxswain::tensor::decode_row(codes.view(), row, pieces.data() + row * k);
  require(std::memcmp(whole.data(), pieces.data(), n * sizeof(float)) == 0, "codes are the values");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  coxswain::fuzz::Input input(data, size);
  const auto config = coxswain::json::parse(input.until_nul());
  if (!config.ok()) return 0;
  const auto quant = model::parse_stored_quant(*config, "config");
  if (!quant.ok()) {
    require(!quant.status().message().empty(), "an error says why");
    return 0;
  }
  const std::string_view header = input.until_nul();
  const std::uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  bytes.append(header).append(input.rest());
  const coxswain::fuzz::MemoryFile memory(bytes);
  auto file = weights::open_safetensors(memory.path());
  if (!file.ok()) return 0;
  std::vector<std::string> names;
  for (const weights::TensorInfo& tensor : file->tensors()) {
    for (std::size_t dot = tensor.name.find('.'); dot != std::string::npos;
         dot = tensor.name.find('.', dot + 1))
      names.push_back(tensor.name.substr(0, dot) + ".weight");
    names.push_back(tensor.name.substr(0, tensor.name.rfind("_blocks")));
  }
  std::vector<weights::TensorFile> files;
  files.push_back(std::move(*file));
  auto checkpoint = weights::Checkpoint::of(std::move(files));
  require(checkpoint.ok(), "one file makes a checkpoint");
  const auto derived = weights::derive_tensors(*quant, *checkpoint);
  if (!derived.ok()) {
    require(!derived.message().empty(), "an error says why");
    return 0;
  }
  std::size_t n_found = 0;
  for (const std::string& name : names) {
    const auto at = checkpoint->find(name);
    if (at.derived == nullptr) continue;
    check_rows(*at.derived, bytes.size());
    ++n_found;
  }
  require(n_found > 0, "a tensor is found by its name");
  return 0;
}
