#include "grammar/mask_store.h"

#include <utility>

namespace coxswain::grammar {
namespace {

// Each takes a mask, and up to some hundred KiB with its exits.
constexpr std::size_t kCoresMax = 512;

}  // namespace

std::shared_ptr<const CoreMask> MaskStore::find(const std::string& signature) const {
  base::MutexLock lock(mu_);
  const auto at = cores_.find(signature);
  return at == cores_.end() ? nullptr : at->second;
}

void MaskStore::add(std::string signature, std::shared_ptr<const CoreMask> core) {
  base::MutexLock lock(mu_);
  if (cores_.size() >= kCoresMax) cores_.clear();
  cores_.insert_or_assign(std::move(signature), std::move(core));
}

}  // namespace coxswain::grammar
