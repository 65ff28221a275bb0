#include "chat/gguf_templates.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "gguf/header.h"

namespace coxswain::chat {
namespace {

constexpr std::size_t kTemplateBytesMax = std::size_t{4} << 20;
constexpr std::string_view kKey = "tokenizer.chat_template";

std::optional<std::string> template_name(std::string_view key) {
  if (!key.starts_with(kKey)) return std::nullopt;
  key.remove_prefix(kKey.size());
  if (key.empty()) return "default";
  if (key.size() < 2 || key[0] != '.') return std::nullopt;
  return std::string(key.substr(1));
}

}  // namespace

Result<std::vector<NamedTemplate>> read_gguf_templates(const std::filesystem::path& path) {
  const auto header = gguf::Header::read(path);
  if (!header.ok()) return header.status().with_context(path.string());
  std::vector<NamedTemplate> out;
  for (const std::string_view key : header->keys()) {
    std::optional<std::string> name = template_name(key);
    if (!name || !header->find(key)->is_text()) continue;
    const std::string_view source = header->text(key);
    const auto refused = [&](const std::string& why) {
      return invalid_argument(path.string() + ": key " + std::string(key) + " " + why);
    };
    if (source.size() > kTemplateBytesMax)
      return refused("is longer than " + std::to_string(kTemplateBytesMax >> 20) + " MiB");
    if (!base::is_utf8(source)) return refused("is no UTF-8 text");
    out.push_back({std::move(*name), std::string(source)});
  }
  return out;
}

}  // namespace coxswain::chat
