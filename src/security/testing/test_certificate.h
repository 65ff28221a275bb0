#pragma once
// Certificates for tests, made on the spot.
//
// Thread rule: values.

#include <cstdio>
#include <string>

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace coxswain::security::testing {

// A key and a certificate of it, signed by itself or by `issuer`.
class TestCertificate {
 public:
  // Of the machine 127.0.0.1 too. `valid_s`: from now on; negative: it has expired.
  explicit TestCertificate(const std::string& name,
                           const TestCertificate* issuer = nullptr,
                           long valid_s = 3600)
      : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    X509_set_version(certificate_, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), valid_s);
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
    if (issuer == nullptr) add(NID_basic_constraints, "CA:TRUE");
    add(NID_subject_alt_name, "IP:127.0.0.1");
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
  void add(int what, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value);
    X509_add_ext(certificate_, extension, -1);
    X509_EXTENSION_free(extension);
  }

  EVP_PKEY* const key_;
  X509* const certificate_;
};

}  // namespace coxswain::security::testing
