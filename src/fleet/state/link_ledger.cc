#include "fleet/state/link_ledger.h"

#include <array>
#include <iterator>
#include <string>

namespace coxswain::fleet {
namespace {

template <class Gone>
std::vector<Link> take_out(std::map<Link, LinkUse>& uses, const Gone& gone) {
  std::vector<Link> out;
  for (auto at = uses.begin(); at != uses.end();) {
    const bool is_gone = gone(at->second);
    if (is_gone) out.push_back(at->first);
    at = is_gone ? uses.erase(at) : std::next(at);
  }
  return out;
}

}  // namespace

LinkMark blitz_mark(const Link& link, const LinkUse& use) {
  if (use.n_lanes > 1) return LinkMark::kTanzCasting;
  const bool many = use.n_receivers > 1;
  if (link.medium == LinkMedium::kScaleUp) {
    return many ? LinkMark::kNvlCasting : LinkMark::kNvlinkSending;
  }
  if (many) return LinkMark::kRdmaCasting;
  return link.direction == LinkDirection::kSend ? LinkMark::kRdmaSending : LinkMark::kRdmaLoading;
}

std::string_view name_of(LinkMark mark) {
  static constexpr std::array<std::string_view, 6> kNames{
      "RdmaSending", "RdmaLoading", "NvlinkSending", "RdmaCasting", "NvlCasting", "TanzCasting"};
  return kNames.at(static_cast<std::size_t>(mark));
}

Status LinkLedger::reserve(const Link& link, const LinkUse& use) {
  const auto [at, is_free] = uses_.try_emplace(link, use);
  if (is_free) return {};
  return {Code::kResourceExhausted,
          "the link of replica " + std::to_string(static_cast<std::uint32_t>(link.replica)) +
              " carries transfer " +
              std::to_string(static_cast<std::uint64_t>(at->second.transfer)) + " already"};
}

Status LinkLedger::extend(const Link& link, TransferId transfer, TimePoint deadline) {
  const auto at = uses_.find(link);
  if (at == uses_.end() || at->second.transfer != transfer) {
    return {Code::kNotFound, "the transfer has no such link"};
  }
  at->second.deadline = deadline;
  return {};
}

std::vector<Link> LinkLedger::release(TransferId transfer) {
  return take_out(uses_, [transfer](const LinkUse& use) { return use.transfer == transfer; });
}

std::vector<Link> LinkLedger::lose(ReplicaLife life) {
  return take_out(uses_, [life](const LinkUse& use) {
    return use.owner.replica == life.replica && use.owner.incarnation <= life.incarnation;
  });
}

std::vector<Link> LinkLedger::expire(TimePoint now) {
  return take_out(uses_, [now](const LinkUse& use) { return use.deadline < now; });
}

}  // namespace coxswain::fleet
