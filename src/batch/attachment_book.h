#pragma once
// AttachmentBook: the attachments that an engine's requests need, each sent to a runner once, and again to the next
// runner: a new epoch has nothing of the old one.
//
// Thread rule: one thread.

#include <cstdint>
#include <map>
#include <memory>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

namespace coxswain::batch {

class AttachmentBook {
 public:
  // Sends it unless this runner has it; keeps it until as many remove() as add(). The bytes of an id never change.
  // Errors: those of StepRunner::attach(); it is then not kept.
  Status add(StepRunner& runner, const Attachment& attachment);
  // The runner forgets it with the last user.
  void remove(StepRunner& runner, std::uint64_t id);
  // To a runner of another epoch. Errors: the first of StepRunner::attach(); the others are sent all the same.
  Status resend(StepRunner& runner) const;

  std::size_t size() const { return held_.size(); }

 private:
  struct Entry {
    Attachment attachment;
    std::uint32_t n_users = 0;
  };
  std::map<std::uint64_t, Entry> held_;  // by id, so that a resend has one order
};

}  // namespace coxswain::batch
