#include "kvstore/block_image.h"

#include <cstring>
#include <xxhash.h>

#include "base/raw_bytes.h"

namespace coxswain::kvstore {
namespace {

using base::append_raw;
using base::raw_at;

constexpr std::uint32_t kMagic = 0x564B5843;  // "CXKV"

// Bytes before the first block, the text of the layout included.
std::size_t header_bytes(const KvLayout& layout, std::size_t text_bytes) {
  return 2 * sizeof(std::uint32_t) + text_bytes + layout.groups.size() * sizeof(std::uint32_t);
}

std::span<const std::byte> bytes_of(const char* at, std::size_t n) {
  return {reinterpret_cast<const std::byte*>(at), n};
}

}  // namespace

std::string export_blocks(const KvLayout& layout,
                          const KvStore& store,
                          std::span<const std::vector<BlockId>> blocks) {
  const std::string text = describe(layout);
  std::vector<std::uint32_t> n_blocks;
  n_blocks.reserve(blocks.size());
  for (const auto& list : blocks) n_blocks.push_back(static_cast<std::uint32_t>(list.size()));
  std::string out;
  out.reserve(blocks_attachment_bytes(layout, n_blocks));
  append_raw(out, kMagic);
  append_raw(out, static_cast<std::uint32_t>(text.size()));
  out += text;
  for (const std::uint32_t n : n_blocks) append_raw(out, n);
  for (std::uint32_t g = 0; g < blocks.size(); ++g) {
    const std::size_t size = layout.groups[g].bytes_per_block;
    for (const BlockId block : blocks[g]) {
      const std::size_t at = out.size();
      out.resize(at + sizeof(std::uint64_t) + size);
      char* const payload = out.data() + at + sizeof(std::uint64_t);
      store.copy_out(g, block, {reinterpret_cast<std::byte*>(payload), size});
      const std::uint64_t sum = XXH3_64bits(payload, size);
      std::memcpy(out.data() + at, &sum, sizeof sum);
    }
  }
  return out;
}

Status check_image(const KvLayout& layout, std::string_view image) {
  const auto bad = [](const std::string& what) {
    return invalid_argument("KV blocks: " + what, "attachment");
  };
  if (image.size() < 2 * sizeof(std::uint32_t) || raw_at<std::uint32_t>(image, 0) != kMagic)
    return bad("the bytes are no image of blocks");
  const std::size_t text_bytes = raw_at<std::uint32_t>(image, sizeof(std::uint32_t));
  if (text_bytes > image.size() - 2 * sizeof(std::uint32_t)) return bad("the image is cut off");
  const std::string_view text = image.substr(2 * sizeof(std::uint32_t), text_bytes);
  for (const KvLayout::Group& group : layout.groups) {
    if (group.n_kv_heads == 0) {
      return {Code::kUnimplemented, "KV blocks: the layers of a KV group differ in shape"};
    }
  }
  if (const std::string what = difference(text, describe(layout)); !what.empty()) {
    return {Code::kFailedPrecondition, "KV blocks: of another layout: " + what};
  }
  if (image.size() < header_bytes(layout, text_bytes)) return bad("the image is cut off");
  const std::vector<std::uint32_t> n_blocks = blocks_in_image(layout, image);
  if (image.size() != blocks_attachment_bytes(layout, n_blocks)) {
    return bad("the image has " + std::to_string(image.size()) + " bytes, its blocks take " +
               std::to_string(blocks_attachment_bytes(layout, n_blocks)));
  }
  const char* at = image.data() + header_bytes(layout, text_bytes);
  for (std::size_t g = 0; g < n_blocks.size(); ++g) {
    const std::size_t size = layout.groups[g].bytes_per_block;
    for (std::uint32_t b = 0; b < n_blocks[g]; ++b) {
      if (XXH3_64bits(at + sizeof(std::uint64_t), size) !=
          raw_at<std::uint64_t>({at, sizeof(std::uint64_t)}, 0)) {
        return {Code::kDataLoss,
                "KV blocks: block " + std::to_string(b) + " of group " + std::to_string(g) +
                    " has a wrong checksum"};
      }
      at += sizeof(std::uint64_t) + size;
    }
  }
  return {};
}

std::vector<std::uint32_t> blocks_in_image(const KvLayout& layout, std::string_view image) {
  const std::size_t text_bytes = raw_at<std::uint32_t>(image, sizeof(std::uint32_t));
  const char* at = image.data() + 2 * sizeof(std::uint32_t) + text_bytes;
  std::vector<std::uint32_t> out;
  out.reserve(layout.groups.size());
  for (std::size_t g = 0; g < layout.groups.size(); ++g, at += sizeof(std::uint32_t))
    out.push_back(raw_at<std::uint32_t>({at, sizeof(std::uint32_t)}, 0));
  return out;
}

void import_blocks(const KvLayout& layout,
                   std::string_view image,
                   KvStore& store,
                   std::span<const std::vector<BlockId>> blocks) {
  const std::size_t text_bytes = raw_at<std::uint32_t>(image, sizeof(std::uint32_t));
  const char* at = image.data() + header_bytes(layout, text_bytes);
  for (std::uint32_t g = 0; g < blocks.size(); ++g) {
    const std::size_t size = layout.groups[g].bytes_per_block;
    for (const BlockId block : blocks[g]) {
      store.copy_in(g, block, bytes_of(at + sizeof(std::uint64_t), size));
      at += sizeof(std::uint64_t) + size;
    }
  }
}

}  // namespace coxswain::kvstore
