#pragma once
// LinkLedger says which links of replicas are in use, so that no plan uses one twice. A link carries one transfer of
// parameters in each direction; a reservation has a transfer, a deadline (a lease that its owner extends) and the shape
// of what it is part of, of which BlitzScale's six marks are names.
//
// Pure values. Thread rule: one owner, who plans.

#include <compare>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "fleet/state/ids.h"

namespace coxswain::fleet {

// Between machines, and inside one (shared memory; for accelerators their own fabric).
enum class LinkMedium : std::uint8_t { kNetwork, kScaleUp };
enum class LinkDirection : std::uint8_t { kSend, kReceive };

struct Link {
  ReplicaId replica{};
  LinkMedium medium = LinkMedium::kNetwork;
  LinkDirection direction = LinkDirection::kSend;
  friend auto operator<=>(const Link&, const Link&) = default;
};

struct LinkUse {
  ReplicaLife owner{};  // whose link it is, in this life
  TransferId transfer{};
  std::uint32_t n_receivers = 1;  // of the whole transfer; more than one is a multicast
  std::uint32_t n_lanes = 1;      // more than one: the parameters are striped over chains
  TimePoint deadline{};
  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

enum class LinkMark : std::uint8_t {
  kRdmaSending,
  kRdmaLoading,
  kNvlinkSending,
  kRdmaCasting,
  kNvlCasting,
  kTanzCasting,
};
LinkMark blitz_mark(const Link& link, const LinkUse& use);
std::string_view name_of(LinkMark mark);

class LinkLedger {
 public:
  // Errors: kResourceExhausted if the link is in use.
  Status reserve(const Link& link, const LinkUse& use);
  // Errors: kNotFound if the transfer does not use the link.
  Status extend(const Link& link, TransferId transfer, TimePoint deadline);
  // All links of a transfer, of a life that has ended, or past their deadline. Returns what became free.
  std::vector<Link> release(TransferId transfer);
  std::vector<Link> lose(ReplicaLife life);
  std::vector<Link> expire(TimePoint now);

  bool busy(const Link& link) const { return uses_.contains(link); }
  const std::map<Link, LinkUse>& uses() const { return uses_; }

 private:
  std::map<Link, LinkUse> uses_;
};

}  // namespace coxswain::fleet
