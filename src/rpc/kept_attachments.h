#pragma once
// KeptAttachments: bytes that a step has made and that other shards may have: of this machine through shared memory, of
// others with a ticket. They stay until they are erased or taken back.
//
// Thread rule: any thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "base/mutex.h"
#include "rpc/shared_bytes.h"
#include "rpc/unix_socket.h"

namespace coxswain::rpc {

class KeptAttachments {
 public:
  // Its name for other processes. Errors: those of share_bytes().
  Result<SharedBytes> share(const Attachment& attachment);
  // The ticket, which nobody can guess.
  std::string offer(Attachment attachment);
  // One ticket more for what is offered; empty: it is gone.
  std::string add_ticket(std::uint64_t id);
  // What is offered for the ticket, which is then used up. Null: nothing is.
  std::shared_ptr<const Attachment> redeem(std::uint64_t id, std::string_view ticket);

  void erase(std::uint64_t id);
  // Nothing: there is none.
  std::optional<Result<Attachment>> take(std::uint64_t id);

 private:
  struct Held {
    AttachmentKind kind = AttachmentKind::kBlocks;
    Descriptor fd = {};
    std::uint64_t n_bytes = 0;
    std::shared_ptr<const Attachment> offered = {};  // then there is no descriptor
    std::vector<std::string> tickets = {};
  };
  base::Mutex mu_;
  std::unordered_map<std::uint64_t, Held> held_ GUARDED_BY(mu_);
};

}  // namespace coxswain::rpc
