#pragma once
// AttachmentStore: the attachments that a runner holds, within a limit of bytes.
//
// Thread rule: any thread. A step that uses an attachment takes it out.

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include <coxswain/kv_layout.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "base/mutex.h"
#include "kvstore/block_image.h"

namespace coxswain::runner {

class AttachmentStore {
 public:
  // What an attachment costs beside its bytes; bounds the number of empty ones.
  static constexpr std::uint64_t kEntryBytes = 256;

  explicit AttachmentStore(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Errors: kResourceExhausted; kInvalidArgument for id 0; kFailedPrecondition if the id stands for other bytes.
  Status put(Attachment attachment);
  void erase(std::uint64_t id);
  // Errors: kNotFound.
  Result<Attachment> take(std::uint64_t id);
  // Bytes of an attachment of that kind. Errors: kNotFound; kInvalidArgument if it is of another kind.
  Result<std::uint64_t> size_of(std::uint64_t id, AttachmentKind kind) const;
  // Of an attachment of kind kBlocks that was checked when it came. Errors: as size_of().
  Result<kvstore::ImageContents> blocks_of(std::uint64_t id, const KvLayout& layout) const;
  // Bytes that are left of the limit.
  std::uint64_t room() const;

 private:
  const std::uint64_t bytes_max_;
  mutable base::Mutex mu_;
  std::uint64_t bytes_ GUARDED_BY(mu_) = 0;
  std::unordered_map<std::uint64_t, Attachment> held_ GUARDED_BY(mu_);
};

}  // namespace coxswain::runner
