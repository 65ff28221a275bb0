#include "security/tls.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <unistd.h>
#include <utility>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "security/peer_files.h"

namespace coxswain::security {
namespace {

using ContextPtr = std::shared_ptr<ssl_ctx_st>;

// Of the options that name the files.
struct OptionNames {
  std::string_view certificate;
  std::string_view key;
  std::string_view ca;
};
constexpr OptionNames kServerOptions{.certificate = "`--tls-cert-path` ",
                                     .key = "`--tls-key-path` ",
                                     .ca = "`--tls-client-ca-path` "};
constexpr OptionNames kPeerOptions{.certificate = "`--fleet-cert-path` ",
                                   .key = "`--fleet-key-path` ",
                                   .ca = "`--fleet-ca-path` "};
constexpr unsigned char kProtocols[] = "\x08http/1.1\x08http/1.0";  // of ALPN

// Why OpenSSL could not do what it was last asked for.
std::string reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* text = ERR_reason_error_string(code);
  ERR_clear_error();
  return text == nullptr ? "it is of no use" : text;
}

Status bad_file(std::string_view option, const std::string& path, const std::string& why) {
  return invalid_argument(std::string(option) + path + ": " + why);
}

Status check_readable(std::string_view option, const std::string& path) {
  if (access(path.c_str(), R_OK) == 0) return {};
  return bad_file(option, path, std::strerror(errno));
}

// A key with a password would have it asked for at the terminal.
int no_password(char*, int, int, void*) {
  return -1;
}

int choose_protocol(SSL*,
                    const unsigned char** out,
                    unsigned char* out_bytes,
                    const unsigned char* offered,
                    unsigned offered_bytes,
                    void*) {
  unsigned char* chosen = nullptr;
  const int found = SSL_select_next_proto(
      &chosen, out_bytes, kProtocols, sizeof(kProtocols) - 1, offered, offered_bytes);
  *out = chosen;  // one of ours, so it outlives the call
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

void set_rules(SSL_CTX& context) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  SSL_CTX_set_options(
      &context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Idle connections give their buffers back, and no list of sessions grows: clients keep theirs in tickets.
  SSL_CTX_set_mode(&context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  constexpr unsigned char kSessionsOf[] = "coxswain";
  SSL_CTX_set_session_id_context(&context, kSessionsOf, sizeof(kSessionsOf) - 1);
  SSL_CTX_set_default_passwd_cb(&context, no_password);
  SSL_CTX_set_alpn_select_cb(&context, choose_protocol, nullptr);
}

Status load_pair(SSL_CTX& context,
                 const std::string& cert,
                 const std::string& key,
                 const OptionNames& options) {
  COXSWAIN_RETURN_IF_ERROR(check_readable(options.certificate, cert));
  COXSWAIN_RETURN_IF_ERROR(check_readable(options.key, key));
  if (SSL_CTX_use_certificate_chain_file(&context, cert.c_str()) != 1)
    return bad_file(options.certificate, cert, "no certificate in PEM can be read: " + reason());
  // Says also that it is not that of the certificate.
  if (SSL_CTX_use_PrivateKey_file(&context, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return bad_file(options.key, key, "no key of that certificate can be read: " + reason());
  if (SSL_CTX_check_private_key(&context) != 1)
    return bad_file(options.key, key, "it is not that of the certificate: " + reason());
  return {};
}

Status load_ca(SSL_CTX& context, const std::string& path, const OptionNames& options) {
  COXSWAIN_RETURN_IF_ERROR(check_readable(options.ca, path));
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(path.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(&context, path.c_str()) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return bad_file(options.ca, path, "no certificates in PEM can be read: " + reason());
  }
  SSL_CTX_set_client_CA_list(&context, names);  // takes them over
  return {};
}

// As the other end of a connection would.
Status check_own_certificate(SSL_CTX& context, const std::string& path) {
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(&context, &chain);
  X509_STORE_CTX* check = X509_STORE_CTX_new();
  if (check == nullptr) throw std::bad_alloc();
  int why = X509_V_ERR_UNSPECIFIED;
  if (X509_STORE_CTX_init(
          check, SSL_CTX_get_cert_store(&context), SSL_CTX_get0_certificate(&context), chain) ==
      1) {
    why = X509_verify_cert(check) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(check);
  }
  X509_STORE_CTX_free(check);
  ERR_clear_error();
  if (why == X509_V_OK) return {};
  return bad_file(
      kPeerOptions.certificate,
      path,
      std::string("no other machine would believe it: ") + X509_verify_cert_error_string(why));
}

Result<ContextPtr> make_context(const TlsFiles& files) {
  ERR_clear_error();
  const ContextPtr out(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (out == nullptr) return Status(Code::kUnavailable, "TLS cannot be used: " + reason());
  set_rules(*out);
  COXSWAIN_RETURN_IF_ERROR(load_pair(*out, files.certificate, files.key, kServerOptions));
  if (files.client_ca.empty()) return out;
  COXSWAIN_RETURN_IF_ERROR(load_ca(*out, files.client_ca, kServerOptions));
  SSL_CTX_set_verify(out.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return out;
}

int as_int(std::size_t n) {
  return static_cast<int>(std::min<std::size_t>(n, INT_MAX));
}

}  // namespace

Status check_peer_files(const PeerFiles& files) {
  ERR_clear_error();
  const ContextPtr context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (context == nullptr) return {Code::kUnavailable, "TLS cannot be used: " + reason()};
  SSL_CTX_set_default_passwd_cb(context.get(), no_password);
  COXSWAIN_RETURN_IF_ERROR(load_pair(*context, files.certificate, files.key, kPeerOptions));
  COXSWAIN_RETURN_IF_ERROR(load_ca(*context, files.ca, kPeerOptions));
  return check_own_certificate(*context, files.certificate);
}

TlsSession::TlsSession(ssl_ctx_st* context) : ssl_(SSL_new(context)) {
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  if (ssl_ == nullptr || in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    SSL_free(ssl_);
    throw std::bad_alloc();
  }
  SSL_set_bio(ssl_, in, out);  // takes them over
  SSL_set_accept_state(ssl_);
}

TlsSession::~TlsSession() {
  SSL_free(ssl_);
}

void TlsSession::receive(std::string_view bytes) {
  if (state_ == State::kBroken || bytes.empty()) return;
  if (BIO_write(SSL_get_rbio(ssl_), bytes.data(), as_int(bytes.size())) != as_int(bytes.size()))
    state_ = State::kBroken;  // out of memory
}

std::size_t TlsSession::read(std::span<char> text) {
  if (state_ == State::kBroken || state_ == State::kEnded) return 0;
  ERR_clear_error();
  std::size_t n = 0;
  const int done = SSL_read_ex(ssl_, text.data(), text.size(), &n);
  if (!established_ && SSL_is_init_finished(ssl_) == 1) {
    established_ = true;
    state_ = State::kOpen;
  }
  if (done == 1) return n;
  const int error = SSL_get_error(ssl_, done);
  if (error == SSL_ERROR_ZERO_RETURN) {
    state_ = State::kEnded;
  } else if (error != SSL_ERROR_WANT_READ) {
    state_ = State::kBroken;
  }
  ERR_clear_error();
  return 0;
}

bool TlsSession::write(std::string_view text) {
  ERR_clear_error();
  std::size_t n = 0;
  if (SSL_write_ex(ssl_, text.data(), text.size(), &n) == 1) return true;
  state_ = State::kBroken;
  return false;
}

void TlsSession::end() {
  if (!established_ || state_ == State::kBroken) return;
  if ((SSL_get_shutdown(ssl_) & SSL_SENT_SHUTDOWN) != 0) return;
  ERR_clear_error();
  SSL_shutdown(ssl_);  // what it returns tells of the other side's end
}

void TlsSession::take_output(std::string& bytes) {
  BIO* out = SSL_get_wbio(ssl_);
  char* data = nullptr;
  const long n = BIO_get_mem_data(out, &data);
  if (n <= 0) return;
  bytes.append(data, static_cast<std::size_t>(n));
  BIO_reset(out);
}

Result<std::shared_ptr<TlsIdentity>> TlsIdentity::load(TlsFiles files) {
  std::shared_ptr<TlsIdentity> out(new TlsIdentity(std::move(files)));
  COXSWAIN_RETURN_IF_ERROR(out->reload());
  return out;
}

Status TlsIdentity::reload() {
  COXSWAIN_ASSIGN_OR_RETURN(ContextPtr context, make_context(files_));
  const base::MutexLock lock(mu_);
  context_.swap(context);
  return {};
}

std::unique_ptr<TlsSession> TlsIdentity::new_session() const {
  const base::MutexLock lock(mu_);
  return std::make_unique<TlsSession>(context_.get());
}

}  // namespace coxswain::security
