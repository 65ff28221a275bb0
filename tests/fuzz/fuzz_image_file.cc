// A file of packed weights: as it is, and once more with the checksums that its author would have written, so that what
// lies behind them is met, too.
//
// The sums say what a file holds, not that it is well meant: whatever they fit is read within the file.

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <xxhash.h>

#include "fuzz/fuzz_input.h"
#include "fuzz/memory_file.h"
#include "weights/image_file.h"

namespace {

using coxswain::Code;
using coxswain::fuzz::MemoryFile;
using coxswain::fuzz::require;
using coxswain::weights::ImageFile;

constexpr std::size_t kFixedBytes = 24;

template <typename T>
T value_at(std::string_view bytes, std::size_t at) {
  T out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

struct Entry {
  std::uint64_t identity = 0;
  std::size_t begin = 0;  // in the file
  std::size_t bytes = 0;
};

// What a file says of itself, read without a check but that all of it lies inside.
struct Contents {
  std::string_view key;
  std::vector<Entry> entries;
  std::size_t file_bytes = 0;  // with the images
};

std::optional<Contents> contents_of(std::string_view file) {
  if (file.size() < kFixedBytes) return std::nullopt;
  Contents out;
  const std::uint64_t key_bytes = value_at<std::uint32_t>(file, 16);
  const std::uint64_t n_images = value_at<std::uint32_t>(file, 20);
  std::uint64_t at = kFixedBytes + key_bytes;
  if (at + n_images * 16 > file.size()) return std::nullopt;
  out.key = file.substr(kFixedBytes, key_bytes);
  std::size_t n_pieces = 0;
  for (std::uint64_t i = 0; i < n_images; ++i, at += 16) {
    const Entry entry{.identity = value_at<std::uint64_t>(file, at),
                      .bytes = value_at<std::uint64_t>(file, at + 8)};
    if (entry.bytes > file.size()) return std::nullopt;
    n_pieces += (entry.bytes + ImageFile::kPieceBytes - 1) / ImageFile::kPieceBytes;
    out.entries.push_back(entry);
  }
  at += n_pieces * 8 + 8;
  for (Entry& entry : out.entries) {
    entry.begin = at;
    at += entry.bytes;
  }
  out.file_bytes = at;
  if (at > file.size()) return std::nullopt;
  return out;
}

// The same with checksums that fit.
std::string sealed(std::string file, const Contents& contents) {
  const auto put = [&](std::size_t at, std::uint64_t sum) {
    std::memcpy(file.data() + at, &sum, sizeof sum);
  };
  std::size_t at = kFixedBytes + contents.key.size() + contents.entries.size() * 16;
  for (const Entry& entry : contents.entries) {
    for (std::size_t done = 0; done < entry.bytes; done += ImageFile::kPieceBytes, at += 8) {
      put(at,
          XXH3_64bits(file.data() + entry.begin + done,
                      std::min(ImageFile::kPieceBytes, entry.bytes - done)));
    }
  }
  put(at, XXH3_64bits(file.data(), at));
  return file;
}

// `is_sealed`: the sums of all pieces fit.
void check_images(const ImageFile& file,
                  const Contents& contents,
                  std::string_view bytes,
                  bool is_sealed) {
  for (std::size_t i = 0; i < contents.entries.size(); ++i) {
    const Entry& entry = contents.entries[i];
    require(file.has(i, entry.identity, entry.bytes), "an image is what the table says");
    require(!file.has(i, entry.identity, entry.bytes + 1), "an image has one size");
    for (std::size_t done = 0; done < entry.bytes; done += ImageFile::kPieceBytes) {
      std::vector<std::byte> piece(std::min(ImageFile::kPieceBytes, entry.bytes - done));
      const auto read = file.read_piece(i, done / ImageFile::kPieceBytes, piece);
      require(read.ok() || (!is_sealed && read.code() == Code::kDataLoss), "a piece can be read");
      const auto held = std::as_bytes(std::span(bytes).subspan(entry.begin + done, piece.size()));
      require(!read.ok() || std::ranges::equal(piece, held), "what is read is what the file holds");
    }
  }
  require(!file.has(contents.entries.size(), 0, 0), "there is no image behind the last");
}

void check_file(std::string_view bytes, const std::optional<Contents>& contents, bool is_sealed) {
  const MemoryFile memory(bytes);
  const std::string key(contents ? contents->key : "");
  const auto file = ImageFile::open(memory.path(), key);
  if (!file.ok()) {
    require(file.status().code() == Code::kDataLoss, "what is not accepted is damaged");
    require(!file.status().message().empty(), "an error says why");
    return;
  }
  require(contents.has_value(), "what is accepted lies in the file");
  require(contents->file_bytes == bytes.size(), "images fill the file");
  require(file->fingerprint() == value_at<std::uint64_t>(bytes, 8), "the fingerprint is kept");
  require(ImageFile::open(memory.path(), key + "x").status().code() == Code::kInvalidArgument,
          "another key is refused");
  check_images(*file, *contents, bytes, is_sealed);
  memory.cut(bytes.size() - 1);
  require(!ImageFile::open(memory.path(), key).ok(), "a cut file is not opened");
  for (std::size_t i = 0; i < contents->entries.size(); ++i) {
    const Entry& entry = contents->entries[i];
    if (entry.bytes == 0 || entry.begin + entry.bytes < bytes.size()) continue;
    const std::size_t last = (entry.bytes - 1) / ImageFile::kPieceBytes;
    std::vector<std::byte> piece(entry.bytes - last * ImageFile::kPieceBytes);
    require(!file->read_piece(i, last, piece).ok(), "a file that became shorter is noticed");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto contents = contents_of(bytes);
  check_file(bytes, contents, /*is_sealed=*/false);
  if (!contents) return 0;
  const std::string fitting = sealed(std::string(bytes), *contents);
  check_file(fitting, contents_of(fitting), /*is_sealed=*/true);
  return 0;
}
