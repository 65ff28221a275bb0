#include "kvstore/block_image.h"

#include <cstring>
#include <xxhash.h>

#include "base/raw_bytes.h"

namespace coxswain::kvstore {
namespace {

using base::append_raw;
using base::raw_at;

constexpr std::uint32_t kMagic = 0x564B5843;        // "CXKV"
constexpr std::uint32_t kLayersMagic = 0x4C4B5843;  // "CXKL": of some layers

// Where the numbers of blocks begin. REQUIRES: a magic and a text.
std::size_t counts_at(std::string_view image) {
  const std::size_t of_layers =
      raw_at<std::uint32_t>(image, 0) == kLayersMagic ? 2 * sizeof(std::uint32_t) : 0;
  return 2 * sizeof(std::uint32_t) + raw_at<std::uint32_t>(image, sizeof(std::uint32_t)) +
         of_layers;
}

// Bytes before the first block, the text of the layout included.
std::size_t header_bytes(const KvLayout& layout, std::string_view image) {
  return counts_at(image) + layout.groups.size() * sizeof(std::uint32_t);
}

std::span<const std::byte> bytes_of(const char* at, std::size_t n) {
  return {reinterpret_cast<const std::byte*>(at), n};
}

}  // namespace

std::string export_blocks(const KvLayout& layout,
                          const KvStore& store,
                          std::span<const std::vector<BlockId>> blocks,
                          const LayerRange& layers) {
  const std::string text = describe(layout);
  std::vector<std::uint32_t> n_blocks;
  n_blocks.reserve(blocks.size());
  for (const auto& list : blocks) n_blocks.push_back(static_cast<std::uint32_t>(list.size()));
  std::string out;
  out.reserve(blocks_attachment_bytes(layout, n_blocks, layers));
  const bool whole = layers == LayerRange{};
  append_raw(out, whole ? kMagic : kLayersMagic);
  append_raw(out, static_cast<std::uint32_t>(text.size()));
  out += text;
  if (!whole) {
    append_raw(out, layers.begin);
    append_raw(out, layers.end);
  }
  for (const std::uint32_t n : n_blocks) append_raw(out, n);
  for (std::uint32_t g = 0; g < blocks.size(); ++g) {
    const std::size_t size = bytes_per_block(layout.groups[g], layers);
    for (const BlockId block : blocks[g]) {
      const std::size_t at = out.size();
      out.resize(at + sizeof(std::uint64_t) + size);
      char* const payload = out.data() + at + sizeof(std::uint64_t);
      store.copy_out(g, block, {reinterpret_cast<std::byte*>(payload), size}, layers);
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
  const std::uint32_t magic =
      image.size() < 2 * sizeof(std::uint32_t) ? 0 : raw_at<std::uint32_t>(image, 0);
  if (magic != kMagic && magic != kLayersMagic) return bad("the bytes are no image of blocks");
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
  if (image.size() < header_bytes(layout, image)) return bad("the image is cut off");
  const auto [layers, n_blocks] = contents_of(layout, image);
  if (magic == kLayersMagic && layers.begin >= layers.end) return bad("the image has no layers");
  if (image.size() != blocks_attachment_bytes(layout, n_blocks, layers)) {
    return bad("the image has " + std::to_string(image.size()) + " bytes, its blocks take " +
               std::to_string(blocks_attachment_bytes(layout, n_blocks, layers)));
  }
  const char* at = image.data() + header_bytes(layout, image);
  for (std::size_t g = 0; g < n_blocks.size(); ++g) {
    const std::size_t size = bytes_per_block(layout.groups[g], layers);
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

ImageContents contents_of(const KvLayout& layout, std::string_view image) {
  ImageContents out;
  std::size_t at = counts_at(image);
  if (raw_at<std::uint32_t>(image, 0) == kLayersMagic) {
    out.layers = {.begin = raw_at<std::uint32_t>(image, at - 2 * sizeof(std::uint32_t)),
                  .end = raw_at<std::uint32_t>(image, at - sizeof(std::uint32_t))};
  }
  out.n_blocks.reserve(layout.groups.size());
  for (std::size_t g = 0; g < layout.groups.size(); ++g, at += sizeof(std::uint32_t))
    out.n_blocks.push_back(raw_at<std::uint32_t>(image, at));
  return out;
}

void import_blocks(const KvLayout& layout,
                   std::string_view image,
                   KvStore& store,
                   std::span<const std::vector<BlockId>> blocks) {
  const LayerRange layers = contents_of(layout, image).layers;
  const char* at = image.data() + header_bytes(layout, image);
  for (std::uint32_t g = 0; g < blocks.size(); ++g) {
    const std::size_t size = bytes_per_block(layout.groups[g], layers);
    for (const BlockId block : blocks[g]) {
      store.copy_in(g, block, bytes_of(at + sizeof(std::uint64_t), size), layers);
      at += sizeof(std::uint64_t) + size;
    }
  }
}

}  // namespace coxswain::kvstore
