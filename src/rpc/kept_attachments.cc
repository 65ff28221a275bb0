#include "rpc/kept_attachments.h"

#include <unistd.h>
#include <utility>

#include "base/random.h"

namespace coxswain::rpc {
namespace {

std::string draw_ticket() {
  std::string out;
  for (int i = 0; i < 2; ++i) {
    for (std::uint64_t word = base::random_u64(), byte = 0; byte < sizeof(word); ++byte)
      out += static_cast<char>(word >> (8 * byte) & 0xff);
  }
  return out;
}

}  // namespace

Result<SharedBytes> KeptAttachments::share(const Attachment& attachment) {
  COXSWAIN_ASSIGN_OR_RETURN(Descriptor fd, share_bytes(attachment.bytes));
  const SharedBytes out{.pid = ::getpid(), .fd = fd.get(), .n_bytes = attachment.bytes.size()};
  base::MutexLock lock(mu_);
  held_.insert_or_assign(
      attachment.id, Held{.kind = attachment.kind, .fd = std::move(fd), .n_bytes = out.n_bytes});
  return out;
}

std::string KeptAttachments::offer(Attachment attachment) {
  const std::uint64_t id = attachment.id;
  std::string ticket = draw_ticket();
  base::MutexLock lock(mu_);
  held_.insert_or_assign(id,
                         Held{.kind = attachment.kind,
                              .offered = std::make_shared<const Attachment>(std::move(attachment)),
                              .tickets = {ticket}});
  return ticket;
}

std::string KeptAttachments::add_ticket(std::uint64_t id) {
  std::string ticket = draw_ticket();
  base::MutexLock lock(mu_);
  const auto found = held_.find(id);
  if (found == held_.end()) return {};
  found->second.tickets.push_back(ticket);
  return ticket;
}

std::shared_ptr<const Attachment> KeptAttachments::redeem(std::uint64_t id,
                                                          std::string_view ticket) {
  base::MutexLock lock(mu_);
  const auto found = held_.find(id);
  if (found == held_.end() || std::erase(found->second.tickets, ticket) == 0) return nullptr;
  return found->second.offered;
}

void KeptAttachments::erase(std::uint64_t id) {
  base::MutexLock lock(mu_);
  held_.erase(id);
}

std::optional<Result<Attachment>> KeptAttachments::take(std::uint64_t id) {
  base::MutexLock lock(mu_);
  const auto found = held_.find(id);
  if (found == held_.end()) return {};
  const Held held = std::move(found->second);
  held_.erase(found);
  if (held.offered != nullptr) return *held.offered;
  Result<std::string> bytes = read_shared(held.fd.get(), held.n_bytes);
  if (!bytes.ok()) return bytes.status();
  return Attachment{.id = id, .kind = held.kind, .bytes = std::move(bytes).value()};
}

}  // namespace coxswain::rpc
