#pragma once
// Membership: which shards make up the fleet, as a fixed list, an etcd cluster or Kubernetes says it.
//
// Placement and restarts of machines are theirs. What is here only looks: it never starts, ends or moves anything.
//
// What the list means: a member that is in it may be given work. One that has left it gets nothing new; what it has
// goes on where others serve, and otherwise while its connection lives, because a list may be wrong for a while and a
// connection that answers is not. One with another incarnation is another process under an old name.
//
// A source that loses what it watches (an API server that restarts, no endpoint of etcd that answers) keeps the last
// list, which stays valid, and tries again with growing pauses. status() says so; the list never shrinks by it.
//
// Thread rule: start() and the destructor belong to one thread; status() to any. What is told is told by a thread of
// the source, but for the list of a fixed one.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::membership {

enum class Role : std::uint8_t { kMixed, kPrefill, kDecode };

struct Member {
  std::string name{};     // unique in its list
  std::string address{};  // "host:port", "[address]:port" of IPv6
  Role role = Role::kMixed;
  // Another one for each process that has the name; empty in a fixed list, which cannot know it.
  std::string incarnation{};

  friend bool operator==(const Member&, const Member&) = default;
};

// In the order of their names.
using Members = std::vector<Member>;

// The whole list, not a difference. One call at a time; it must not destroy the source that calls.
using OnChange = std::function<void(const Members&)>;
// What became of the source: why it cannot be asked, once until it can be again, and well then. As OnChange.
using OnSource = std::function<void(const Status&)>;

struct SourceStatus {
  bool is_known = false;         // there has been a first list
  bool is_current = false;       // the watch stands: a change would be heard of
  std::uint64_t n_failures = 0;  // connections, answers and watches that failed, since the start
  std::uint64_t n_refused = 0;   // entries that are no members, in the list of now
  std::string last_failure{};    // empty: none yet
};

class Membership {
 public:
  virtual ~Membership() = default;  // when it returns, no call of on_change runs and none follows

  // Called once. The first call of `on_change` comes with the first list, empty or not, and from then on one for each
  // list that differs from the last: of a fixed list from start() itself, of the others from a thread of their own.
  // Errors: kInvalidArgument; kNotFound if a file that it needs cannot be read. An API that does not answer is none.
  virtual Status start(OnChange on_change, OnSource on_source = {}) = 0;
  virtual SourceStatus status() const = 0;
};

std::string_view name_of(Role role);
// Errors: kInvalidArgument, with the words that would do.
Result<Role> parse_role(std::string_view text);

// In any order. Errors: kInvalidArgument if two have one name, one has none, or an address is none.
Result<std::unique_ptr<Membership>> make_fixed_membership(Members members);

// Whether this is "host:port" or "[address]:port", with a port of 1 to 65535. Errors: kInvalidArgument that quotes it.
Status check_address(std::string_view address);

}  // namespace coxswain::membership
