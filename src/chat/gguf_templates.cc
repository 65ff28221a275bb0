#include "chat/gguf_templates.h"

#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/utf8.h"

namespace coxswain::chat {
namespace {

constexpr std::uint64_t kKeysMax = 1 << 16;
constexpr std::uint64_t kKeyBytesMax = 1 << 16;
constexpr std::uint64_t kTemplateBytesMax = std::uint64_t{4} << 20;
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;
constexpr std::string_view kKey = "tokenizer.chat_template";

// Walks the keys of one file front to back.
class Reader {
 public:
  Reader(std::ifstream file, std::uint64_t n_bytes) : file_(std::move(file)), n_bytes_(n_bytes) {}

  Result<std::vector<NamedTemplate>> run() {
    std::array<char, 4> magic{};
    std::uint32_t version = 0;
    std::uint64_t n_tensors = 0;
    std::uint64_t n_keys = 0;
    if (!take(magic) || std::string_view(magic.data(), magic.size()) != "GGUF")
      return damaged("no magic number");
    if (!take(version) || !take(n_tensors) || !take(n_keys)) return damaged("cut off at its start");
    if (version != 2 && version != 3)
      return damaged("version " + std::to_string(version) + " is not supported");
    if (n_keys > kKeysMax) return damaged(std::to_string(n_keys) + " keys are too many");
    std::vector<NamedTemplate> out;
    for (std::uint64_t i = 0; i < n_keys; ++i) {
      std::uint32_t type = 0;
      const std::optional<std::string> key = take_string(kKeyBytesMax);
      if (!key || !take(type)) return damaged("cut off at key " + std::to_string(i));
      const std::optional<std::string> name = type == kString ? template_name(*key) : std::nullopt;
      if (!name) {
        if (!skip_value(type)) return damaged("damaged at key " + *key);
        continue;
      }
      std::optional<std::string> source = take_string(kTemplateBytesMax);
      if (!source) return damaged("key " + *key + " is cut off or too long");
      if (!base::is_utf8(*source)) return damaged("key " + *key + " is no UTF-8 text");
      out.push_back({*name, std::move(*source)});
    }
    return out;
  }

 private:
  static Status damaged(const std::string& what) {
    return {Code::kDataLoss, "GGUF header: " + what};
  }

  static std::optional<std::string> template_name(std::string_view key) {
    if (!key.starts_with(kKey)) return std::nullopt;
    key.remove_prefix(kKey.size());
    if (key.empty()) return "default";
    if (key.size() < 2 || key[0] != '.') return std::nullopt;
    return std::string(key.substr(1));
  }

  template <typename T>
  bool take(T& out) {
    if (n_bytes_ - at_ < sizeof(T)) return false;
    at_ += sizeof(T);
    return static_cast<bool>(file_.read(reinterpret_cast<char*>(&out), sizeof(T)));
  }
  std::optional<std::string> take_string(std::uint64_t bytes_max) {
    std::uint64_t length = 0;
    if (!take(length) || length > bytes_max || length > n_bytes_ - at_) return std::nullopt;
    std::string out(static_cast<std::size_t>(length), '\0');
    at_ += length;
    if (!file_.read(out.data(), static_cast<std::streamsize>(length))) return std::nullopt;
    return out;
  }
  bool skip(std::uint64_t n) {
    if (n > n_bytes_ - at_) return false;
    at_ += n;
    return static_cast<bool>(file_.seekg(static_cast<std::streamoff>(n), std::ios::cur));
  }
  bool skip_string() {
    std::uint64_t length = 0;
    return take(length) && skip(length);
  }

  static std::uint64_t scalar_bytes(std::uint32_t type) {
    constexpr std::array<std::uint64_t, 13> kBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < kBytes.size() ? kBytes[type] : 0;
  }
  bool skip_value(std::uint32_t type) {
    if (type == kString) return skip_string();
    if (type != kArray) return scalar_bytes(type) > 0 && skip(scalar_bytes(type));
    std::uint32_t item = 0;
    std::uint64_t n = 0;
    if (!take(item) || !take(n) || n > n_bytes_) return false;
    if (item != kString) return scalar_bytes(item) > 0 && skip(n * scalar_bytes(item));
    for (std::uint64_t i = 0; i < n; ++i) {
      if (!skip_string()) return false;
    }
    return true;
  }

  std::ifstream file_;
  std::uint64_t n_bytes_;
  std::uint64_t at_ = 0;
};

}  // namespace

Result<std::vector<NamedTemplate>> read_gguf_templates(const std::filesystem::path& path) {
  std::error_code error;
  const auto n_bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return Status(Code::kNotFound, "cannot open " + path.string());
  auto out = Reader(std::move(file), n_bytes).run();
  if (!out.ok()) return out.status().with_context(path.string());
  return out;
}

}  // namespace coxswain::chat
