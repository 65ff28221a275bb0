#include "runner/attachment_store.h"

#include <string>
#include <utility>

namespace coxswain::runner {
namespace {

std::uint64_t cost_of(const Attachment& attachment) {
  return attachment.bytes.size() + AttachmentStore::kEntryBytes;
}

Status unknown(std::uint64_t id) {
  return {Code::kNotFound, "no attachment " + std::to_string(id) + " is here"};
}

}  // namespace

Status AttachmentStore::put(Attachment attachment) {
  if (attachment.id == 0) return invalid_argument("an attachment has the id 0", "attachment");
  base::MutexLock lock(mu_);
  if (const auto found = held_.find(attachment.id); found != held_.end()) {
    if (found->second == attachment) return {};
    return {Code::kFailedPrecondition,
            "attachment " + std::to_string(attachment.id) + " stands for other bytes"};
  }
  const std::uint64_t cost = cost_of(attachment);
  if (cost > bytes_max_ - bytes_) {
    return {Code::kResourceExhausted,
            ErrorKind::kOverloaded,
            "attachments: " + std::to_string(attachment.bytes.size()) + " bytes beside " +
                std::to_string(bytes_) + " exceed attachment_bytes_max " +
                std::to_string(bytes_max_)};
  }
  bytes_ += cost;
  held_.emplace(attachment.id, std::move(attachment));
  return {};
}

void AttachmentStore::erase(std::uint64_t id) {
  static_cast<void>(take(id));
}

Result<Attachment> AttachmentStore::take(std::uint64_t id) {
  base::MutexLock lock(mu_);
  const auto found = held_.find(id);
  if (found == held_.end()) return unknown(id);
  Attachment out = std::move(found->second);
  bytes_ -= cost_of(out);
  held_.erase(found);
  return out;
}

Result<std::uint64_t> AttachmentStore::size_of(std::uint64_t id, AttachmentKind kind) const {
  base::MutexLock lock(mu_);
  const auto found = held_.find(id);
  if (found == held_.end()) return unknown(id);
  if (found->second.kind != kind) {
    return invalid_argument("attachment " + std::to_string(id) + " is of kind " +
                                std::string(name_of(found->second.kind)) + ", not " +
                                std::string(name_of(kind)),
                            "attachment");
  }
  return std::uint64_t{found->second.bytes.size()};
}

Result<kvstore::ImageContents> AttachmentStore::blocks_of(std::uint64_t id,
                                                          const KvLayout& layout) const {
  COXSWAIN_RETURN_IF_ERROR(size_of(id, AttachmentKind::kBlocks).status());
  base::MutexLock lock(mu_);
  const auto found = held_.find(id);
  if (found == held_.end()) return unknown(id);
  return kvstore::contents_of(layout, found->second.bytes);
}

std::uint64_t AttachmentStore::room() const {
  base::MutexLock lock(mu_);
  return bytes_max_ - bytes_;
}

}  // namespace coxswain::runner
