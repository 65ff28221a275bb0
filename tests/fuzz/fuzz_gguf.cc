// A GGUF file: where its tensors lie, its vocabulary, and the chat templates in its metadata.

#include <string_view>

#include "chat/gguf_templates.h"
#include "fuzz/memory_file.h"
#include "fuzz/tokenizer_checks.h"
#include "gguf/header.h"
#include "tokenizer/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = coxswain::fuzz;
  const fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  const auto header = coxswain::gguf::Header::read(file.path());
  if (header.ok()) {
    for (const auto& tensor : header->tensors())
      fuzz::require(tensor.begin + tensor.n_bytes <= size, "a tensor lies in the file");
  }
  const auto templates = coxswain::chat::read_gguf_templates(file.path());
  if (!templates.ok()) {
    fuzz::require(!templates.status().message().empty(), "an error says why");
  } else {
    for (const auto& entry : *templates) {
      fuzz::require(!entry.name.empty(), "a template has a name");
      fuzz::require(fuzz::is_valid_utf8(entry.source), "a template is UTF-8");
    }
  }
  fuzz::check_parts(coxswain::tokenizer::read_gguf_vocabulary(file.path()), {});
  return 0;
}
