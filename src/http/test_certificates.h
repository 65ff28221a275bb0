#pragma once
// A client for tests that speaks TLS.

#include <string>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "http/test_client.h"
#include "security/testing/test_certificate.h"

namespace coxswain::http {

using security::testing::TestCertificate;

struct TlsClientOptions {
  int version_max = 0;  // 0: any
  int version_min = 0;
  const TestCertificate* certificate = nullptr;
  std::string protocol{};  // of ALPN, with its length in front
};

// Trusts everybody: whom it met is for the test to look at.
class TlsClient final : public TestClient {
 public:
  explicit TlsClient(std::uint16_t port, const TlsClientOptions& options = {}) : TestClient(port) {
    context_ = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(context_, 0);  // offers what nobody should accept
    SSL_CTX_set_min_proto_version(context_, options.version_min);
    SSL_CTX_set_max_proto_version(context_, options.version_max);
    if (options.certificate != nullptr) {
      SSL_CTX_use_certificate(context_, options.certificate->certificate());
      SSL_CTX_use_PrivateKey(context_, options.certificate->key());
    }
    ssl_ = SSL_new(context_);
    if (!options.protocol.empty()) {
      SSL_set_alpn_protos(ssl_,
                          reinterpret_cast<const unsigned char*>(options.protocol.data()),
                          static_cast<unsigned>(options.protocol.size()));
    }
    SSL_set_fd(ssl_, fd());
    shaken_ = SSL_connect(ssl_) == 1;
    ERR_clear_error();
  }
  ~TlsClient() override {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool shaken() const { return shaken_; }
  // The common name of the server's certificate.
  std::string met() const {
    X509* certificate = SSL_get1_peer_certificate(ssl_);
    if (certificate == nullptr) return "nobody";
    std::string out(64, '\0');
    const int n = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate),
                                            NID_commonName,
                                            out.data(),
                                            static_cast<int>(out.size()));
    X509_free(certificate);
    out.resize(static_cast<std::size_t>(std::max(n, 0)));
    return out;
  }
  // Whether the server has said that nothing follows.
  bool told_the_end() const { return (SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) != 0; }
  void say_end() { SSL_shutdown(ssl_); }
  SSL* ssl() const { return ssl_; }

 private:
  ssize_t write_bytes(std::string_view bytes) override {
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
  }
  ssize_t read_bytes(char* bytes, std::size_t n_max) override {
    const int n = SSL_read(ssl_, bytes, static_cast<int>(n_max));
    if (n > 0) return n;
    const bool cut = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    const bool over = SSL_get_error(ssl_, n) == SSL_ERROR_ZERO_RETURN;
    ERR_clear_error();
    return cut || over ? 0 : -1;
  }

  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  bool shaken_ = false;
};

}  // namespace coxswain::http
