#pragma once
// Passage: a piece of a hand-over on its way from one runner to the other (handover.cc).
//
// Thread rule: any thread; a call waits for the bytes.

#include <cstddef>
#include <cstdint>

#include <coxswain/block_transport.h>
#include <coxswain/status.h>

namespace coxswain::batch::handover {

struct Passage {
  std::uint32_t piece = 0;
  BlockPassage first;  // of `n` attachments in a row
  std::size_t n = 0;
};

Status too_late();
// Of how many bytes. Nothing is left behind where one attachment does not pass.
Result<std::uint64_t> pass_all(BlockTransport& transport, const Passage& passage);
// What has come of it is gone from where it came to.
void forget(const Passage& passage);

}  // namespace coxswain::batch::handover
