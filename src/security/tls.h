#pragma once
// TLS for connections: the certificate that a listener shows, and what stands between one connection's bytes on the
// wire and its text. No sockets: bytes go in and come out, so that limits and time-outs stay those of the connection.
//
// TLS 1.2 and 1.3, no renegotiation, HTTP/1.1 by ALPN. With a CA nobody gets in without a certificate of it.
//
// Thread rule: TlsIdentity: any thread. TlsSession: one owner.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <coxswain/status.h>

#include "base/mutex.h"

// OpenSSL's, which tls.cc alone includes.
struct ssl_ctx_st;
struct ssl_st;

namespace coxswain::security {

struct TlsFiles {
  std::string certificate{};  // PEM, with the chain behind it
  std::string key{};          // PEM, without a password
  std::string client_ca{};    // PEM; empty: clients need no certificate
};

class TlsSession {
 public:
  enum class State : std::uint8_t {
    kHandshake,
    kOpen,
    kEnded,  // the client has said that it sends nothing more
    kBroken  // not TLS, not from whom it should be, or changed on its way
  };

  explicit TlsSession(ssl_ctx_st* context);  // throws std::bad_alloc
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  State state() const { return state_; }
  // Whether text may be written.
  bool established() const { return established_; }

  // What came over the wire; read() then until it gives 0.
  void receive(std::string_view bytes);
  std::size_t read(std::span<char> text);
  // REQUIRES: established(). False if the connection is beyond use.
  bool write(std::string_view text);
  // Tells the client that nothing more follows.
  void end();
  // Appends what is to go over the wire.
  void take_output(std::string& bytes);

 private:
  ssl_st* const ssl_;
  State state_ = State::kHandshake;
  bool established_ = false;
};

class TlsIdentity {
 public:
  // Errors: kInvalidArgument that names option, file and reason.
  static Result<std::shared_ptr<TlsIdentity>> load(TlsFiles files);
  // Reads the files again, for connections from now on. On an error everything stays as it was.
  Status reload();
  std::unique_ptr<TlsSession> new_session() const;

 private:
  explicit TlsIdentity(TlsFiles files) : files_(std::move(files)) {}

  const TlsFiles files_;
  mutable base::Mutex mu_;
  std::shared_ptr<ssl_ctx_st> context_ GUARDED_BY(mu_);
};

}  // namespace coxswain::security
