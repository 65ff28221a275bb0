#pragma once
// Block images: KV blocks as one string of bytes, laid out as <coxswain/kv_layout.h> says.
//
// An image is checked as a whole before a byte of it reaches the store: another layout, a wrong size and a wrong
// checksum are refused.
//
// Thread rule: pure functions; the store belongs to its runner's thread.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/kv_layout.h>
#include <coxswain/status.h>

#include "kvstore/kv_store.h"

namespace coxswain::kvstore {

// REQUIRES: the layout is the store's, and all blocks are inside their groups.
std::string export_blocks(const KvLayout& layout,
                          const KvStore& store,
                          std::span<const std::vector<BlockId>> blocks,
                          const LayerRange& layers = {});

// Errors: kFailedPrecondition naming what differs between the layouts; kInvalidArgument for what is no image or an
// image of another size; kDataLoss naming group and block of a wrong checksum.
Status check_image(const KvLayout& layout, std::string_view image);

struct ImageContents {
  LayerRange layers = {};                    // whose keys and values it has
  std::vector<std::uint32_t> n_blocks = {};  // per group

  friend bool operator==(const ImageContents&, const ImageContents&) = default;
};

// REQUIRES: check_image() was ok.
ImageContents contents_of(const KvLayout& layout, std::string_view image);

// REQUIRES: check_image() was ok; `blocks` has as many blocks of each group as the image, all inside their groups.
void import_blocks(const KvLayout& layout,
                   std::string_view image,
                   KvStore& store,
                   std::span<const std::vector<BlockId>> blocks);

}  // namespace coxswain::kvstore
