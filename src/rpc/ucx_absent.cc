// In the place of ucx_carrier.cc where the build has no UCX.
#include "rpc/ucx_carrier.h"

namespace coxswain::rpc {

Result<std::unique_ptr<UcxCarrier>> start_ucx(UcxOptions) {
  return Status(Code::kUnimplemented, "this build has no UCX (COXSWAIN_UCX)");
}

bool has_ucx() {
  return false;
}

}  // namespace coxswain::rpc
