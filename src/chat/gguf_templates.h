#pragma once
// Reads the chat templates in the metadata of a GGUF file (ggml's docs/gguf.md): the key
// tokenizer.chat_template, and tokenizer.chat_template.NAME for further ones.
//
// Thread rule: pure function of the file.

#include <filesystem>
#include <vector>

#include "chat/template_set.h"

namespace coxswain::chat {

// Errors: kNotFound, kDataLoss naming the key at fault, kInvalidArgument for a template that is too
// long or no UTF-8 text.
Result<std::vector<NamedTemplate>> read_gguf_templates(const std::filesystem::path& path);

}  // namespace coxswain::chat
