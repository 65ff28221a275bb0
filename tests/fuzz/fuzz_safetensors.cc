// A safetensors file, and the index of a checkpoint in several files.
//
// First byte: bit 0 = the input is a whole file, otherwise a header for which length and data are
// made up (second byte: bytes of data); bit 1 = the file is cut after opening; bit 2 = the input
// is an index.

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "fuzz/fuzz_input.h"
#include "fuzz/memory_file.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

namespace {

using coxswain::fuzz::MemoryFile;
using coxswain::fuzz::require;
namespace weights = coxswain::weights;

constexpr std::string_view kShardHeader =
    R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]}})";

std::string framed(std::string_view header, std::size_t n_data) {
  std::string out(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(out.data(), &length, sizeof length);
  out.append(header);
  out.append(n_data, 'd');
  return out;
}

void check_tensors(const weights::TensorFile& file, std::string_view bytes) {
  std::uint64_t covered = 0;
  for (const weights::TensorInfo& tensor : file.tensors()) {
    require(tensor.begin <= tensor.end && tensor.end <= bytes.size(), "a tensor is in the file");
    require(weights::stored_bytes(tensor.type, tensor.shape) == tensor.n_bytes(),
            "its bytes are those of its shape");
    require(file.find(tensor.name) == &tensor, "it is found by its name");
    covered += tensor.n_bytes();
    std::vector<std::byte> data(tensor.n_bytes());
    require(file.read(tensor, 0, data).ok(), "it can be read");
    require(std::ranges::equal(data,
                               std::as_bytes(std::span(bytes).subspan(tensor.begin, data.size()))),
            "what is read is what the file holds");
  }
  require(covered < bytes.size(), "tensors do not overlap");
}

void check_file(std::string_view bytes, bool cuts) {
  const MemoryFile memory(bytes);
  weights::SafetensorsLimits limits;
  limits.header_bytes_max = 4096;
  const auto file = weights::open_safetensors(memory.path(), limits);
  if (!file.ok()) {
    require(!file.status().message().empty(), "an error says why");
    return;
  }
  check_tensors(*file, bytes);
  if (!cuts || bytes.size() < 9) return;
  memory.cut(bytes.size() - 1);
  for (const weights::TensorInfo& tensor : file->tensors()) {
    std::vector<std::byte> data(tensor.n_bytes());
    require(file->read(tensor, 0, data).ok() == (tensor.end < bytes.size() || data.empty()),
            "a file that became shorter is noticed");
  }
}

void check_index(std::string_view text) {
  static const coxswain::base::TempFolder folder;
  static const std::string shard = folder.write("a.safetensors", framed(kShardHeader, 8));
  folder.write("model.safetensors.index.json", text);
  const auto checkpoint = weights::Checkpoint::open(folder.path());
  if (!checkpoint.ok()) {
    require(!checkpoint.status().message().empty(), "an error says why");
    return;
  }
  require(checkpoint->files().size() <= 1, "only the shard that is there is open");
  for (const std::string_view name : {"a", "b"}) {
    if (const auto tensor = checkpoint->find(name)) {
      std::vector<std::byte> data(tensor.tensor->n_bytes());
      require(tensor.read(0, data).ok(), "a tensor of the shard can be read");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  coxswain::fuzz::Input input(data, size);
  const std::uint8_t flags = input.byte();
  if ((flags & 4) != 0) {
    check_index(input.rest());
  } else if ((flags & 1) != 0) {
    check_file(input.rest(), (flags & 2) != 0);
  } else {
    const std::size_t n_data = input.byte();
    check_file(framed(input.rest(), n_data), (flags & 2) != 0);
  }
  return 0;
}
