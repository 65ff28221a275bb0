// FakeRunner: block slots, and attachments of blocks.

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <coxswain/kv_layout.h>

#include "base/raw_bytes.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/fake_tokens.h"

namespace coxswain::batch::testing {
namespace {

// Of an attachment of blocks (kv_layout.h), up to the numbers of blocks.
std::string blocks_head(const RunnerInfo& info) {
  const std::string text = describe(kv_layout_of(info));
  std::string out = "CXKV";
  base::append_raw(out, static_cast<std::uint32_t>(text.size()));
  return out + text;
}

Status check_blocks(const RunnerInfo& info, std::string_view image) {
  const std::string head = blocks_head(info);
  if (!image.starts_with(head)) return {Code::kFailedPrecondition, "KV blocks: of another layout"};
  std::vector<std::uint32_t> n_blocks(info.kv_groups.size());
  std::size_t at = head.size() + n_blocks.size() * sizeof(std::uint32_t);
  if (image.size() < at) return invalid_argument("KV blocks: the image is cut off");
  std::memcpy(n_blocks.data(), image.data() + head.size(), at - head.size());
  if (image.size() != blocks_attachment_bytes(kv_layout_of(info), n_blocks))
    return invalid_argument("KV blocks: an image of another size");
  for (std::size_t g = 0; g < n_blocks.size(); ++g) {
    const std::size_t size = info.kv_groups[g].bytes_per_block;
    for (std::uint32_t i = 0; i < n_blocks[g]; ++i, at += sizeof(std::uint64_t) + size) {
      const auto sum = base::raw_at<std::uint64_t>(image, at);
      if (sum != hash_text(image.substr(at + sizeof sum, size)))
        return {Code::kDataLoss, "KV blocks: a block has a wrong checksum"};
    }
  }
  return {};
}

}  // namespace

std::vector<Attachment> FakeRunner::attached() const {
  base::MutexLock lock(mu_);
  return attached_;
}

Status FakeRunner::attach(Attachment attachment) {
  on_attachment();
  base::MutexLock lock(mu_);
  if (!options_.capabilities.attachments) return StepRunner::attach(std::move(attachment));
  if (!attachment_refusal_.ok()) return attachment_refusal_;
  if (attachment.kind == AttachmentKind::kBlocks)
    COXSWAIN_RETURN_IF_ERROR(check_blocks(info(), attachment.bytes));
  attached_.push_back(std::move(attachment));
  return {};
}

Status FakeRunner::detach(std::uint64_t id) {
  base::MutexLock lock(mu_);
  std::erase_if(attached_, [&](const Attachment& a) { return a.id == id; });
  return {};
}

Status FakeRunner::export_blocks(const BlockTransfer& transfer, TimePoint) {
  on_attachment();
  base::MutexLock lock(mu_);
  if (!options_.capabilities.exports_beside) violate("an export beside the steps");
  if (!next_transfer_failure_.ok()) return std::exchange(next_transfer_failure_, Status());
  make_attachment(transfer);
  return {};
}

Result<Attachment> FakeRunner::take(std::uint64_t id) {
  on_attachment();
  base::MutexLock lock(mu_);
  const auto found = std::ranges::find(attached_, id, &Attachment::id);
  if (found == attached_.end()) return StepRunner::take(id);
  Attachment out = std::move(*found);
  attached_.erase(found);
  return out;
}

std::uint64_t FakeRunner::read(const Tables& tables, std::uint32_t end) const {
  std::uint64_t h = 0;
  for (std::size_t g = 0; g < tables.size(); ++g) {
    for (std::uint32_t p = 0; p < end; ++p) {
      if (!sees(options_, options_.windows[g], end - 1, p)) continue;
      const std::size_t block = block_of(p) < tables[g].size() ? tables[g][block_of(p)]
                                                               : std::size_t{options_.n_blocks[g]};
      const std::size_t index = block * options_.block_tokens + p % options_.block_tokens;
      const Slot slot = block < options_.n_blocks[g] ? slots_[g][index] : Slot{};
      h = mix(h, cell(slot.position, slot.token, slot.identity));
    }
  }
  return h;
}

void FakeRunner::write_position(State& state, const Tables& tables, std::uint32_t position) {
  for (std::size_t g = 0; g < tables.size(); ++g) {
    if (block_of(position) >= tables[g].size()) return violate("a position without a block");
    const BlockId block = tables[g][block_of(position)];
    if (block >= options_.n_blocks[g]) return violate("a block outside the pool");
    slots_[g][std::size_t{block} * options_.block_tokens + position % options_.block_tokens] = {
        position, state.tokens[position], state.identity};
  }
}

// As if the positions behind `computed` had never been written.
void FakeRunner::forget_keys(const State& state, const Tables& tables) {
  for (std::uint32_t p = state.computed; p + 1 < state.tokens.size(); ++p) {
    for (std::size_t g = 0; g < tables.size(); ++g) {
      const BlockId block = tables[g][block_of(p)];
      slots_[g][std::size_t{block} * options_.block_tokens + p % options_.block_tokens] = {};
    }
  }
}

void FakeRunner::move_block(const BlockMove& move) {
  if (move.kv_group >= slots_.size()) return violate("a move in an unknown group");
  const std::uint32_t n_blocks = options_.n_blocks[move.kv_group];
  if (std::max(move.from.id, move.to.id) >= n_blocks) return violate("a block outside the pool");
  std::vector<Slot>& slots = slots_[move.kv_group];
  std::copy_n(slots.begin() + std::ptrdiff_t{move.from.id} * options_.block_tokens,
              options_.block_tokens,
              slots.begin() + std::ptrdiff_t{move.to.id} * options_.block_tokens);
}

std::span<FakeRunner::Slot> FakeRunner::slots_of(std::size_t group, BlockId block) {
  if (block == 0 || block >= options_.n_blocks[group]) {
    violate("a block outside the pool");
    block = 0;
  }
  return std::span(slots_[group])
      .subspan(std::size_t{block} * options_.block_tokens, options_.block_tokens);
}

void FakeRunner::make_attachment(const BlockTransfer& transfer) {
  if (transfer.blocks.size() != slots_.size()) return violate("an export of other KV groups");
  if (transfer.layers != LayerRange{}) return violate("an export of some layers");
  std::string image = blocks_head(info());
  for (const auto& list : transfer.blocks)
    base::append_raw(image, static_cast<std::uint32_t>(list.size()));
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    for (const BlockId block : transfer.blocks[g]) {
      const auto bytes = std::as_bytes(std::span<const Slot>(slots_of(g, block)));
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      base::append_raw(image, hash_text(text));
      image += text;
    }
  }
  attached_.push_back(
      {.id = transfer.attachment, .kind = AttachmentKind::kBlocks, .bytes = std::move(image)});
}

Status FakeRunner::import_blocks(const BlockTransfer& transfer) {
  if (transfer.layers != LayerRange{}) return invalid_argument("an import of some layers");
  const auto found = std::ranges::find(attached_, transfer.attachment, &Attachment::id);
  if (found == attached_.end()) return invalid_argument("an attachment that is not there");
  const std::string image = std::move(found->bytes);
  attached_.erase(found);
  std::string head = blocks_head(info());
  for (const auto& list : transfer.blocks)
    base::append_raw(head, static_cast<std::uint32_t>(list.size()));
  if (!image.starts_with(head)) return invalid_argument("another number of blocks");
  std::size_t at = head.size();
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    for (const BlockId block : transfer.blocks[g]) {
      const auto to = std::as_writable_bytes(slots_of(g, block));
      std::memcpy(to.data(), image.data() + at + sizeof(std::uint64_t), to.size());
      at += sizeof(std::uint64_t) + to.size();
    }
  }
  return {};
}

}  // namespace coxswain::batch::testing
