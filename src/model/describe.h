#pragma once
// What an ArchSpec means for those above the model: sizes, KV groups, where rope changes with the length.
//
// Thread rule: a pure function.

#include "model/arch_spec.h"
#include "model/model.h"

namespace coxswain::model {

// Everything of ModelInfo that follows from the architecture alone.
ModelInfo describe(const ArchSpec& arch);

}  // namespace coxswain::model
