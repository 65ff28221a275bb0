#pragma once
// Certificates for tests, made on the spot, and a client that speaks TLS.

#include <cstdio>
#include <string>

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "http/test_client.h"

namespace coxswain::http {

// A key and a certificate of it, signed by itself or by `issuer`.
class TestCertificate {
 public:
  explicit TestCertificate(const std::string& name, const TestCertificate* issuer = nullptr)
      : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    X509_set_version(certificate_, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 3600);
    X509_set_pubkey(certificate_, key_);
    X509_NAME* subject = X509_get_subject_name(certificate_);
    X509_NAME_add_entry_by_txt(subject,
                               "CN",
                               MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()),
                               -1,
                               -1,
                               0);
    const TestCertificate& by = issuer == nullptr ? *this : *issuer;
    X509_set_issuer_name(certificate_, X509_get_subject_name(by.certificate_));
    if (issuer == nullptr) {
      X509_EXTENSION* ca = X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "CA:TRUE");
      X509_add_ext(certificate_, ca, -1);
      X509_EXTENSION_free(ca);
    }
    EXPECT_NE(X509_sign(certificate_, by.key_, EVP_sha256()), 0);
  }
  ~TestCertificate() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;

  void write(const std::string& cert_path,
             const std::string& key_path,
             const char* password = nullptr) const {
    FILE* file = std::fopen(cert_path.c_str(), "w");
    EXPECT_EQ(PEM_write_X509(file, certificate_), 1);
    std::fclose(file);
    file = std::fopen(key_path.c_str(), "w");
    EXPECT_EQ(PEM_write_PKCS8PrivateKey(file,
                                        key_,
                                        password == nullptr ? nullptr : EVP_aes_128_cbc(),
                                        password,
                                        password == nullptr ? 0 : 1,
                                        nullptr,
                                        nullptr),
              1);
    std::fclose(file);
  }
  EVP_PKEY* key() const { return key_; }
  X509* certificate() const { return certificate_; }

 private:
  EVP_PKEY* const key_;
  X509* const certificate_;
};

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
