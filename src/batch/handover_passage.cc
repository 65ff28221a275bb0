#include "batch/handover_passage.h"

namespace coxswain::batch::handover {

Status too_late() {
  return {Code::kDeadlineExceeded, "the bytes did not pass in time"};
}

Status export_all(const Export& out, TimePoint until) {
  for (const LentBlocks& each : out.blocks) {
    Status status = out.runner->export_blocks(each.transfer, until);
    if (status.ok()) continue;
    forget(out);
    return status;
  }
  return {};
}

void forget(const Export& out) {
  for (const LentBlocks& each : out.blocks)
    static_cast<void>(out.runner->detach(each.transfer.attachment));
}

Result<std::uint64_t> pass_all(BlockTransport& transport, const Passage& passage) {
  const BlockPassage& first = passage.first;
  std::uint64_t n_bytes = 0;
  for (std::size_t i = 0; i < passage.n; ++i) {
    BlockPassage each = first;
    each.made += i;
    each.as += i;
    const bool late = i > 0 && Clock::now() >= first.until;
    const Result<std::uint64_t> passed = late ? too_late() : transport.pass(each);
    if (passed.ok()) {
      n_bytes += passed.value();
      continue;
    }
    forget({.first = first, .n = i});
    for (std::size_t j = late ? i : i + 1; j < passage.n; ++j)
      static_cast<void>(first.from->detach(first.made + j));
    return passed.status();
  }
  return n_bytes;
}

void forget(const Passage& passage) {
  for (std::size_t i = 0; i < passage.n; ++i)
    static_cast<void>(passage.first.to->detach(passage.first.as + i));
}

}  // namespace coxswain::batch::handover
