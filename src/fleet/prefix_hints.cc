#include "fleet/prefix_hints.h"

#include <array>
#include <span>
#include <string>

namespace coxswain::fleet {
namespace {

constexpr std::size_t kShortest = 64;  // tokens

}  // namespace

std::vector<std::uint64_t> PrefixHints::keys(const batch::GenerationRequest& request) const {
  std::vector<std::uint64_t> out;
  if (request.prompt.size() < kShortest) return out;
  const std::string cache =
      std::to_string(request.cache_salt.size()) + ":" + request.cache_salt + request.adapter_digest;
  const std::uint64_t of_cache =
      base::sip_hash(std::as_bytes(std::span(cache)), secret_, base::kSip13);
  const std::span<const TokenId> prompt(request.prompt);
  std::uint64_t before = of_cache;
  std::size_t begin = 0;
  for (std::size_t end = kShortest; end <= prompt.size(); begin = end, end *= 2) {
    const std::uint64_t piece =
        base::sip_hash(std::as_bytes(prompt.subspan(begin, end - begin)), secret_, base::kSip13);
    const std::array<std::uint64_t, 2> chain{before, piece};
    before = base::sip_hash(std::as_bytes(std::span(chain)), secret_, base::kSip13);
    out.push_back(before);
  }
  return out;
}

std::optional<PrefixHints::Known> PrefixHints::longest(
    const std::vector<std::uint64_t>& keys) const {
  for (std::size_t i = keys.size(); i-- > 0;) {
    if (const auto found = known_.find(keys[i]); found != known_.end())
      return Known{.replica = found->second->replica, .n_tokens = kShortest << i};
  }
  return std::nullopt;
}

void PrefixHints::note(const std::vector<std::uint64_t>& keys, std::size_t replica) {
  for (const std::uint64_t key : keys) {
    if (const auto found = known_.find(key); found != known_.end()) {
      found->second->replica = replica;
      by_use_.splice(by_use_.begin(), by_use_, found->second);
      continue;
    }
    by_use_.push_front({key, replica});
    known_[key] = by_use_.begin();
    if (known_.size() <= keys_max_) continue;
    known_.erase(by_use_.back().key);
    by_use_.pop_back();
  }
}

void PrefixHints::forget(std::size_t replica) {
  for (auto hint = by_use_.begin(); hint != by_use_.end();) {
    if (hint->replica != replica) {
      ++hint;
      continue;
    }
    known_.erase(hint->key);
    hint = by_use_.erase(hint);
  }
}

}  // namespace coxswain::fleet
