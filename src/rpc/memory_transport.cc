#include "rpc/memory_transport.h"

#include "rpc/sharded_client.h"

namespace coxswain::rpc {

Result<std::uint64_t> pass_through_here(const BlockPassage& passage) {
  auto* const from = dynamic_cast<ShardedClient*>(passage.from);
  auto* const to = dynamic_cast<ShardedClient*>(passage.to);
  if (from == nullptr || to == nullptr) return RouterTransport().pass(passage);
  SharedAttachment whole;
  COXSWAIN_ASSIGN_OR_RETURN(whole.attachment, from->take_until(passage.made, passage.until));
  whole.attachment.id = passage.as;
  const std::uint64_t n_bytes = whole.attachment.bytes.size();
  COXSWAIN_RETURN_IF_ERROR(to->attach_shared(whole, passage.until).status());
  return n_bytes;
}

Result<std::uint64_t> MemoryTransport::pass(const BlockPassage& passage) {
  auto* const from = dynamic_cast<ShardedClient*>(passage.from);
  auto* const to = dynamic_cast<ShardedClient*>(passage.to);
  if (!works_ || from == nullptr || to == nullptr) return pass_through_here(passage);
  COXSWAIN_ASSIGN_OR_RETURN(SharedAttachment shared, from->share(passage.made, passage.until));
  shared.attachment.id = passage.as;
  const std::uint64_t n_bytes =
      shared.where ? shared.where->n_bytes : shared.attachment.bytes.size();
  const bool in_memory = shared.where.has_value();
  const Status status = to->attach_shared(shared, passage.until).status();
  if (in_memory && status.code() == Code::kUnimplemented) {
    works_ = false;
    return pass_through_here(passage);
  }
  if (in_memory) static_cast<void>(from->detach(passage.made));
  if (!status.ok()) return status;
  return n_bytes;
}

}  // namespace coxswain::rpc
