// A GGUF file: its tensors, the config and weights of its model, its vocabulary and chat templates.

#include <string>
#include <string_view>
#include <vector>

#include "chat/gguf_templates.h"
#include "fuzz/memory_file.h"
#include "fuzz/tokenizer_checks.h"
#include "gguf/header.h"
#include "model/gguf_model.h"
#include "tokenizer/formats.h"

namespace {

void check_model(const std::string& path) {
  namespace fuzz = coxswain::fuzz;
  const auto model = coxswain::model::GgufModel::open(path);
  if (!model.ok()) return fuzz::require(!model.status().message().empty(), "an error says why");
  fuzz::require(model->config().is_object(), "a config is an object");
  const auto checkpoint = model->open_weights();
  if (!checkpoint.ok()) return;
  for (const auto& file : checkpoint->files()) {
    for (const auto& tensor : file.tensors()) {
      const auto& type = tensor.blocks;
      if (tensor.n_bytes() < type.bytes) continue;
      std::vector<std::byte> block(type.bytes);
      fuzz::require(file.read(tensor, tensor.n_bytes() - type.bytes, block).ok(),
                    "a block is there");
      std::vector<float> values(type.values);
      type.decode(block.data(), values.data());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = coxswain::fuzz;
  const fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  const auto header = coxswain::gguf::Header::read(file.path());
  if (header.ok()) {
    for (const auto& tensor : header->tensors())
      fuzz::require(tensor.begin + tensor.n_bytes <= size, "a tensor lies in the file");
  }
  check_model(file.path());
  const auto templates = coxswain::chat::read_gguf_templates(file.path());
  if (!templates.ok()) {
    fuzz::require(!templates.status().message().empty(), "an error says why");
  } else {
    for (const auto& entry : *templates) {
      fuzz::require(!entry.name.empty(), "a template has a name");
      fuzz::require(fuzz::is_valid_utf8(entry.source), "a template is UTF-8");
    }
  }
  if (!header.ok()) return 0;
  for (const auto from :
       {coxswain::tokenizer::GgufTokens::kWholeIfThere, coxswain::tokenizer::GgufTokens::kListed})
    fuzz::check_parts(coxswain::tokenizer::read_gguf_vocabulary(*header, from), {});
  return 0;
}
