#include "batch/attachment_book.h"

#include <utility>

namespace coxswain::batch {

Status AttachmentBook::add(StepRunner& runner, const Attachment& attachment) {
  if (const auto found = held_.find(attachment.id); found != held_.end()) {
    ++found->second.n_users;
    return {};
  }
  COXSWAIN_RETURN_IF_ERROR(runner.attach(attachment));
  held_.emplace(attachment.id, Entry{.attachment = attachment, .n_users = 1});
  return {};
}

void AttachmentBook::remove(StepRunner& runner, std::uint64_t id) {
  const auto found = held_.find(id);
  if (found == held_.end() || --found->second.n_users > 0) return;
  held_.erase(found);
  static_cast<void>(runner.detach(id));  // a runner that is lost has forgotten it already
}

Status AttachmentBook::resend(StepRunner& runner) const {
  Status failure;
  for (const auto& [id, entry] : held_) {
    Status status = runner.attach(entry.attachment);
    if (failure.ok()) failure = std::move(status);
  }
  return failure;
}

}  // namespace coxswain::batch
