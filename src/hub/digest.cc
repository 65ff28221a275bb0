#include "hub/digest.h"

#include <array>

#include <openssl/evp.h>

namespace coxswain::hub {

struct Digest::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  EVP_MD_CTX_free};
};

Digest::Digest(std::string_view expected, std::uint64_t size_bytes)
    : state_(std::make_unique<State>()) {
  const bool is_sha256 = expected.size() == 64;
  EVP_DigestInit_ex(state_->context.get(), is_sha256 ? EVP_sha256() : EVP_sha1(), nullptr);
  if (!is_sha256) add("blob " + std::to_string(size_bytes) + std::string(1, '\0'));
}

Digest::~Digest() = default;

void Digest::add(std::string_view bytes) {
  EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size());
}

std::string Digest::hex() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int n = 0;
  EVP_DigestFinal_ex(state_->context.get(), bytes.data(), &n);
  std::string out;
  for (unsigned int i = 0; i < n; ++i) {
    out += kDigits[bytes.at(i) >> 4];
    out += kDigits[bytes.at(i) & 15];
  }
  return out;
}

}  // namespace coxswain::hub
