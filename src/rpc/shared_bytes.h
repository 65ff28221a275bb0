#pragma once
// Bytes in memory that other processes of this user on this machine read: an anonymous file (memfd_create(2)) that
// nobody can write or resize any more, under its name in /proc.
//
// Thread rule: values.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "rpc/unix_socket.h"

namespace coxswain::rpc {

struct SharedBytes {
  std::int32_t pid = 0;  // who has them,
  std::int32_t fd = -1;  // under this descriptor
  std::uint64_t n_bytes = 0;
};

// The same bytes by UCX (ucx_carrier.h), under a ticket of its own, since that one is not encrypted on its way.
struct UcxOffer {
  std::string address = {};
  std::string ticket = {};
};

// Bytes that another shard holds for whoever brings the ticket.
struct OfferedBytes {
  std::string address = {};  // "host:port"
  std::uint64_t epoch = 0;   // of that shard
  std::uint64_t id = 0;      // there
  std::string ticket = {};
  std::uint64_t n_bytes = 0;
  std::optional<UcxOffer> ucx = {};
};

// How a shard took what it was given.
enum class TakenBy : std::uint8_t { kMessages, kUcx };

struct SharedAttachment {
  Attachment attachment = {};
  std::optional<SharedBytes> where = {};   // then `attachment` has none
  std::optional<OfferedBytes> offer = {};  // likewise
};

// They live until the descriptor and those of all readers are closed. Errors: kUnimplemented where the system has no
// such files; kResourceExhausted.
Result<Descriptor> share_bytes(std::string_view bytes);

// A copy. Errors: kUnimplemented: this process cannot read them, or they are not what share_bytes() makes.
Result<std::string> read_shared(const SharedBytes& where);
Result<std::string> read_shared(int fd, std::uint64_t n_bytes);

}  // namespace coxswain::rpc
