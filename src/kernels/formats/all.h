#pragma once
// Every weight format by name, as formats/list.inc has them.

#include "kernels/weight_format.h"

namespace coxswain::kernels::formats {

#define COXSWAIN_PLAIN_FORMAT(name) extern const WeightFormat k##name;
#define COXSWAIN_GROUP_FORMAT(name, codes) extern const WeightFormat k##name;
#define COXSWAIN_SUPER_FORMAT(name) extern const WeightFormat k##name;
#include "kernels/formats/list.inc"
#undef COXSWAIN_PLAIN_FORMAT
#undef COXSWAIN_GROUP_FORMAT
#undef COXSWAIN_SUPER_FORMAT

}  // namespace coxswain::kernels::formats
