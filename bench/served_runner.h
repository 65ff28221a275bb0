#pragma once
// What the measurements that cross a shard's socket share: a codec without text and a place for the
// socket.
//
// Thread rule: as TextCodec; pure function.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <coxswain/text_codec.h>

namespace coxswain::bench {

class NoText final : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view, bool) const override {
    return std::vector<TokenId>{};
  }
  std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  std::unique_ptr<Stream> stream(std::span<const TokenId>, bool) const override { return nullptr; }
  std::string token_text(TokenId) const override { return {}; }
  bool is_special(TokenId) const override { return false; }
};

// A path for a Unix socket that only this process uses.
inline std::string socket_path() {
  const std::string name = "coxswain-bench-" + std::to_string(::getpid());
  return (std::filesystem::temp_directory_path() / name).string();
}

}  // namespace coxswain::bench
