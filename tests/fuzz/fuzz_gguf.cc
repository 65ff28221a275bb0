// The header of a GGUF file: its vocabulary, and the chat templates in its metadata.

#include <string>
#include <unistd.h>

#include <sys/mman.h>

#include "chat/gguf_templates.h"
#include "fuzz/tokenizer_checks.h"
#include "tokenizer/formats.h"

namespace {

// A file in memory with the bytes of the input.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : descriptor_(memfd_create("gguf", 0)) {
    coxswain::fuzz::require(descriptor_ >= 0, "a file in memory can be made");
    coxswain::fuzz::require(write(descriptor_, data, size) == static_cast<ssize_t>(size),
                            "a file in memory takes the input");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = coxswain::fuzz;
  const MemoryFile file(data, size);
  const auto templates = coxswain::chat::read_gguf_templates(file.path());
  if (!templates.ok()) {
    fuzz::require(!templates.status().message().empty(), "an error says why");
  } else {
    for (const auto& entry : *templates) {
      fuzz::require(!entry.name.empty(), "a template has a name");
      fuzz::require(fuzz::is_valid_utf8(entry.source), "a template is UTF-8");
    }
  }
  auto parts = coxswain::tokenizer::read_gguf_vocabulary(file.path());
  if (!parts.ok()) {
    fuzz::require(!parts.status().message().empty(), "an error says why");
    return 0;
  }
  const auto tokenizer = fuzz::assemble(std::move(parts).value());
  if (tokenizer == nullptr) return 0;
  fuzz::check_names(*tokenizer);
  fuzz::check_text(*tokenizer, fuzz::kSampleText);
  return 0;
}
