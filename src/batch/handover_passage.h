#pragma once
// Export, Passage: a piece of a hand-over (handover.cc) on its way out of its runner, beside steps, and to another.
//
// Thread rule: any thread; a call waits for the bytes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <coxswain/block_transport.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "batch/block_transfers.h"

namespace coxswain::batch::handover {

struct Export {
  std::uint32_t piece = 0;
  std::uint64_t first = 0;  // of its attachments, which are in a row
  std::shared_ptr<StepRunner> runner = {};
  std::vector<LentBlocks> blocks = {};  // for each
};

// Nothing is left behind where one attachment is not made.
Status export_all(const Export& out, TimePoint until);
// What it has made is gone.
void forget(const Export& out);

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
