#include <array>
#include <string>

#include "model/families/family.h"

namespace coxswain::model {
namespace {

constexpr std::array kFamilies{
#define COXSWAIN_FAMILY(model_type, file) Family{#model_type, read_##model_type},
#include "model/families/families.def"
#undef COXSWAIN_FAMILY
};

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

Result<Architecture> read_architecture(const json::Value& config) {
  if (!config.is_object()) return invalid_argument("config.json: is not an object");
  ConfigReader reader(config, "config.json: ");
  const std::string model_type = reader.text_or("model_type", "");
  COXSWAIN_RETURN_IF_ERROR(reader.status());
  for (const Family& family : families()) {
    if (family.model_type != model_type) continue;
    Architecture out = family.read(reader);
    COXSWAIN_RETURN_IF_ERROR(reader.status());
    out.arch.model_type = model_type;
    // Of a tied pair some files keep only the head.
    if (Rows& rows = out.tensors.embedding.table.rows.front();
        out.arch.head.tied && rows.otherwise.empty())
      rows.otherwise = "lm_head.weight";
    return out;
  }
  return Status(Code::kUnimplemented,
                ErrorKind::kValidation,
                "config.json: model_type \"" + model_type + "\" is not supported",
                "model_type");
}

}  // namespace coxswain::model
