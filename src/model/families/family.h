#pragma once
// A family turns config.json into an ArchSpec and a TensorMap (architecture.h). families.def lists them: a family is a
// file in this folder and its rows there.
//
// Thread rule: pure functions.

#include <span>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "json/json.h"
#include "model/architecture.h"
#include "model/config_reader.h"

namespace coxswain::model {

// Fills both from the config. Faults go to the reader's status; the result then does not matter.
using ReadFamily = Architecture (*)(ConfigReader& config);

struct Family {
  std::string_view model_type;
  ReadFamily read = nullptr;
};

std::span<const Family> families();

// Reads model_type and everything else. Errors name the field: kInvalidArgument; kUnimplemented for
// an unknown family.
Result<Architecture> read_architecture(const json::Value& config);

// One reader for each row of families.def.
#define COXSWAIN_FAMILY(model_type, file) Architecture read_##model_type(ConfigReader& config);
#include "model/families/families.def"
#undef COXSWAIN_FAMILY

}  // namespace coxswain::model
