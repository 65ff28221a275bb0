#pragma once
// EndpointTable: EndpointSlices as the API server tells them, and the members in them.
//
// Thread rule: one owner.

#include <map>
#include <string>

#include "json/json.h"
#include "membership/kubernetes.h"

namespace coxswain::membership {

class EndpointTable {
 public:
  EndpointTable(ServiceRoles services, std::string port)
      : services_(std::move(services)), port_(std::move(port)) {}

  void clear() { slices_.clear(); }
  // `slice` is an EndpointSlice; one of the same name is replaced.
  void put(const json::Value& slice);
  void erase(const json::Value& slice);

  struct View {
    Members members;
    std::uint64_t n_refused = 0;
    Status why;  // of one that was refused
  };
  // A pod that several slices have is one member, by its IPv4 address where it has both.
  View view() const;

 private:
  struct Entry {
    Member member;
    bool is_v6 = false;
  };
  struct Slice {
    std::vector<Entry> entries;
    std::uint64_t n_refused = 0;
    Status why;
  };
  Slice read(const json::Value& slice) const;

  const ServiceRoles services_;
  const std::string port_;
  std::map<std::string, Slice> slices_;
};

}  // namespace coxswain::membership
