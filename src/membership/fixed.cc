#include "membership/members.h"

namespace coxswain::membership {
namespace {

class Fixed final : public Membership {
 public:
  explicit Fixed(Members members) : members_(std::move(members)) {}

  Status start(OnChange on_change, OnSource) override {
    on_change(members_);
    return {};
  }
  SourceStatus status() const override { return {.is_known = true, .is_current = true}; }

 private:
  const Members members_;
};

}  // namespace

Result<std::unique_ptr<Membership>> make_fixed_membership(Members members) {
  Result<Members> good = checked(std::move(members));
  if (!good.ok()) return good.status();
  return std::unique_ptr<Membership>(std::make_unique<Fixed>(std::move(good).value()));
}

}  // namespace coxswain::membership
