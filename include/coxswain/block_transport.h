#pragma once
// BlockTransport: how the bytes of KV blocks get from one runner to another.
//
// A step of the first runner has exported blocks into an attachment (StepPlan::exports); the transport makes it an
// attachment of the second one, from which a step imports them. What the bytes are, and when both mean the same by
// them, is said in kv_layout.h; each block carries its checksum, which the second runner proves.
//
// Thread rule: any thread; a call waits for the bytes.

#include <cstdint>
#include <string_view>
#include <utility>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

namespace coxswain {

struct BlockPassage {
  StepRunner* from = nullptr;
  // The attachment there, which is gone from there afterwards, whatever comes of it.
  std::uint64_t made = 0;
  StepRunner* to = nullptr;
  std::uint64_t as = 0;  // the attachment here
  // Nobody asks for them any more then. A transport that can end by itself does; of one that cannot, what it brings
  // later is forgotten.
  TimePoint until = TimePoint::max();
};

class BlockTransport {
 public:
  virtual ~BlockTransport() = default;

  // "router", "memory": for metrics and logs.
  virtual std::string_view name() const = 0;
  // How many bytes have passed. Errors: those of StepRunner::take() and attach(); nothing is then left behind.
  virtual Result<std::uint64_t> pass(const BlockPassage& passage) = 0;
};

// Takes the attachment and attaches it: its bytes pass through this process, and for runners in other processes through
// a message to and from each. Works for every pair of runners.
class RouterTransport final : public BlockTransport {
 public:
  std::string_view name() const override { return "router"; }
  Result<std::uint64_t> pass(const BlockPassage& passage) override {
    Result<Attachment> taken = passage.from->take(passage.made);
    if (!taken.ok()) return taken.status();
    Attachment attachment = std::move(taken).value();
    attachment.id = passage.as;
    const std::uint64_t n_bytes = attachment.bytes.size();
    if (Status status = passage.to->attach(std::move(attachment)); !status.ok()) return status;
    return n_bytes;
  }
};

}  // namespace coxswain
