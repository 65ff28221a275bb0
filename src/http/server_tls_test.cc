// TLS: what goes through it, who is let in, and what happens to those who do not speak it.

#include <chrono>
#include <future>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "http/server.h"
#include "http/test_certificates.h"
#include "http/test_client.h"
#include "http/test_server.h"
#include "security/tls.h"

namespace coxswain::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TlsTest : public ServerTest {
 protected:
  security::TlsFiles files() const {
    return {folder_.file("cert"), folder_.file("key"), client_ca_};
  }
  void write_identity(const std::string& name) const {
    TestCertificate(name).write(files().certificate, files().key);
  }
  void start_tls(ServerOptions options = {}) {
    write_identity("first");
    auto identity = security::TlsIdentity::load(files());
    ASSERT_TRUE(identity.ok()) << identity.status().message();
    identity_ = std::move(identity).value();
    options.tls = identity_;
    start(std::move(options));
  }
  void require_certificates_of(const TestCertificate& ca) {
    client_ca_ = folder_.file("ca");
    ca.write(client_ca_, folder_.file("ca.key"));
  }
  void expect_served(const TlsClientOptions& options = {}) {
    TlsClient one(server_->port(), options);
    ASSERT_TRUE(one.shaken());
    one.send(get("/hello"));
    EXPECT_EQ(one.receive().body, "hello");
  }
  std::string load_error(const security::TlsFiles& wrong) const {
    const auto loaded = security::TlsIdentity::load(wrong);
    return loaded.ok() ? "" : loaded.status().message();
  }

  const base::TempFolder folder_;
  std::string client_ca_;
  std::shared_ptr<security::TlsIdentity> identity_;
};

TEST_F(TlsTest, AnswersAndStreamsGoThrough) {
  start_tls();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient one(server_->port(), {.version_max = version, .version_min = version});
    ASSERT_TRUE(one.shaken());
    EXPECT_EQ(one.met(), "first");
    one.send(get("/hello"));
    EXPECT_EQ(one.receive().body, "hello");
    const std::string large(1'500'000, 'b');
    one.send(post("/echo", large));
    EXPECT_EQ(one.receive().body, large);
    one.send(get("/hello") + get("/large") + get("/hello"));  // together
    EXPECT_EQ(one.receive().body, "hello");
    EXPECT_EQ(one.receive().body, std::string(1 << 20, 'L'));
    EXPECT_EQ(one.receive().body, "hello");
    one.send(get("/later"));
    const auto responder = wait_for_request().second;
    responder->begin_stream({});
    EXPECT_EQ(one.receive_head().status, 200);
    for (const char* token : {"one", "two", "three"}) {  // each before the next is there
      responder->write(token);
      EXPECT_EQ(one.receive_chunk(), token);
    }
    responder->end();
    EXPECT_EQ(one.receive_chunk(), "");
    one.send(get("/hello", "Connection: close\r\n"));
    EXPECT_EQ(one.receive().body, "hello");
    EXPECT_TRUE(one.at_end());
    EXPECT_TRUE(one.told_the_end());
  }
}

TEST_F(TlsTest, OldVersionsAndOtherProtocolsAreRefused) {
  start_tls();
  EXPECT_FALSE(TlsClient(server_->port(), {.version_max = TLS1_1_VERSION}).shaken());
  EXPECT_FALSE(TlsClient(server_->port(), {.protocol = "\x02h2"}).shaken());
  expect_served({.protocol = "\x02h2\x08http/1.1"});
  expect_served({.protocol = "\x08http/1.0"});
}

TEST_F(TlsTest, WhoDoesNotSpeakItIsLetGoAndHurtsNobody) {
  start_tls();
  TlsClient bystander(server_->port());
  bystander.send(get("/later"));
  const auto responder = wait_for_request().second;
  responder->begin_stream({});
  EXPECT_EQ(bystander.receive_head().status, 200);
  std::mt19937 random(7);
  std::string noise(3'000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  const std::string lie("\x16\x03\x01\xff\xff\x01", 6);  // a hello longer than a record may be
  for (const std::string& bytes : {get("/hello"),
                                   std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
                                   noise,
                                   lie + noise,
                                   std::string(200'000, '\x16')}) {
    TestClient one(server_->port());
    one.send(bytes);
    const Answer answer = one.receive();
    EXPECT_EQ(answer.status, 0);
    EXPECT_EQ(answer.head, "");
    responder->write("on");
    EXPECT_EQ(bystander.receive_chunk(), "on");
  }
  // Noise in the middle of a connection ends that one.
  TlsClient spoilt(server_->port());
  spoilt.send(get("/later"));
  const auto lost = wait_for_request().second;
  std::promise<void> gone;
  lost->on_close([&] { gone.set_value(); });
  ::send(SSL_get_fd(spoilt.ssl()), noise.data(), noise.size(), MSG_NOSIGNAL);
  gone.get_future().wait();
  expect_served();
}

TEST_F(TlsTest, AHandshakeHasTheTimeOfHeaders) {
  start_tls({.header_timeout = milliseconds(150), .idle_timeout = milliseconds(60'000)});
  const auto begin = steady_clock::now();
  TestClient silent(server_->port());
  TestClient half(server_->port());
  half.send(std::string_view("\x16\x03\x01\x01\x00\x01\x00", 7));
  TestClient slow(server_->port());
  const std::string hello = "\x16\x03\x01\x02" + std::string(600, '\x01');
  std::size_t n_sent = 0;
  while (n_sent < hello.size() && slow.send(hello.substr(n_sent, 1))) {
    ++n_sent;
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(silent.at_end());
  EXPECT_TRUE(half.at_end());
  EXPECT_LT(steady_clock::now() - begin, milliseconds(30'000));
  expect_served();
}

TEST_F(TlsTest, ACertificateIsReplacedWhileConnectionsGoOn) {
  start_tls();
  TlsClient before(server_->port());
  EXPECT_EQ(before.met(), "first");
  write_identity("second");
  ASSERT_TRUE(identity_->reload().ok());
  EXPECT_EQ(TlsClient(server_->port()).met(), "second");
  before.send(get("/hello"));
  EXPECT_EQ(before.receive().body, "hello");
  // A key that does not belong to it: all stays as it was.
  TestCertificate("third").write(files().certificate, folder_.file("key.third"));
  const Status refused = identity_->reload();
  EXPECT_THAT(refused.message(), HasSubstr(files().key));
  EXPECT_EQ(TlsClient(server_->port()).met(), "second");
  expect_served();
}

TEST_F(TlsTest, ClientsNeedACertificateOfTheAuthority) {
  const TestCertificate ca("authority");
  const TestCertificate other_ca("somebody");
  require_certificates_of(ca);
  start_tls();
  const TestCertificate good("client", &ca);
  const TestCertificate bad("client", &other_ca);
  expect_served({.certificate = &good});
  expect_served({.version_max = TLS1_2_VERSION, .certificate = &good});
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const TestCertificate* certificate :
         {static_cast<const TestCertificate*>(nullptr), &bad}) {
      TlsClient one(server_->port(), {.version_max = version, .certificate = certificate});
      one.send(get("/hello"));  // TLS 1.3 learns of it only now
      EXPECT_EQ(one.receive().status, 0);
    }
  }
}

TEST_F(TlsTest, WhatIsWrongWithAFileIsSaid) {
  write_identity("first");
  const security::TlsFiles good = files();
  folder_.write("noise", "no certificate");
  const std::string noise = folder_.file("noise");
  const std::string none = folder_.file("none");
  EXPECT_EQ(load_error(good), "");
  EXPECT_EQ(load_error({none, good.key}),
            "`--tls-cert-path` " + none + ": No such file or directory");
  EXPECT_EQ(load_error({good.certificate, none}),
            "`--tls-key-path` " + none + ": No such file or directory");
  EXPECT_EQ(load_error({good.certificate, good.key, none}),
            "`--tls-client-ca-path` " + none + ": No such file or directory");
  EXPECT_THAT(load_error({noise, good.key}),
              StartsWith("`--tls-cert-path` " + noise + ": no certificate in PEM can be read: "));
  EXPECT_THAT(load_error({good.certificate, noise}),
              StartsWith("`--tls-key-path` " + noise + ": "));
  EXPECT_THAT(load_error({good.certificate, good.key, noise}),
              StartsWith("`--tls-client-ca-path` " + noise + ": no certificates in PEM"));
  const std::string other = folder_.file("other.key");
  TestCertificate("other").write(folder_.file("other"), other);
  EXPECT_THAT(load_error({good.certificate, other}), HasSubstr("key values mismatch"));
  const std::string locked = folder_.file("locked.key");
  TestCertificate("locked").write(folder_.file("locked"), locked, "p");
  EXPECT_THAT(load_error({folder_.file("locked"), locked}),
              StartsWith("`--tls-key-path` " + locked));
}

TEST_F(TlsTest, ALostClientIsNoticed) {
  start_tls();
  for (const bool streaming : {false, true}) {
    for (const int how : {0, 1, 2}) {
      TlsClient one(server_->port());
      one.send(get("/later"));
      const auto responder = wait_for_request().second;
      std::promise<void> gone;
      responder->on_close([&] { gone.set_value(); });
      if (streaming) {
        responder->begin_stream({});
        EXPECT_EQ(one.receive_head().status, 200);
      }
      if (how == 0) one.close();
      if (how == 1) one.reset();
      if (how == 2) one.say_end();
      gone.get_future().wait();
      EXPECT_EQ(server_->open_requests(), 0U);
      if (how == 2 && streaming) {  // what was cut off does not look complete
        EXPECT_TRUE(one.at_end());
        EXPECT_FALSE(one.told_the_end());
      }
    }
  }
}

TEST_F(TlsTest, WhatIsNotReadWaitsAndIsCutInTheEnd) {
  start_tls({.unsent_bytes_max = 64 << 10, .stall_timeout = milliseconds(300)});
  TlsClient one(server_->port());
  one.send(get("/later"));
  const auto responder = wait_for_request().second;
  std::promise<void> gone;
  responder->on_close([&] { gone.set_value(); });
  responder->begin_stream({});
  const std::string piece(16 << 10, 'p');
  while (responder->unsent_bytes() < (256U << 10U)) responder->write(piece);
  gone.get_future().wait();
  // One that reads gets all, and the count comes back to nothing.
  TlsClient two(server_->port());
  two.send(get("/later"));
  const auto reader = wait_for_request().second;
  reader->begin_stream({});
  EXPECT_EQ(two.receive_head().status, 200);
  for (int i = 0; i < 64; ++i) reader->write(piece);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(two.receive_chunk(), piece);
  while (reader->unsent_bytes() > 0) std::this_thread::yield();
  reader->end();
  EXPECT_EQ(two.receive_chunk(), "");
}

TEST_F(TlsTest, ARefusalComesBehindTheHandshake) {
  start_tls({.connections_max = 1});
  TlsClient first(server_->port());
  first.send(get("/hello"));
  EXPECT_EQ(first.receive().status, 200);
  TlsClient second(server_->port());
  ASSERT_TRUE(second.shaken());
  const Answer answer = second.receive();
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("--connections-max"));
  EXPECT_TRUE(second.at_end());
}

TEST_F(TlsTest, IdleConnectionsAreClosedWithAWord) {
  start_tls({.header_timeout = milliseconds(10'000), .idle_timeout = milliseconds(100)});
  TlsClient one(server_->port());
  ASSERT_TRUE(one.shaken());
  EXPECT_TRUE(one.at_end());
  EXPECT_TRUE(one.told_the_end());
  TlsClient two(server_->port());
  two.send(get("/hello"));
  EXPECT_EQ(two.receive().status, 200);
  server_->stop();
  EXPECT_TRUE(two.at_end());
  EXPECT_TRUE(two.told_the_end());
}

// However the bytes are cut, the same text comes out on both sides.
TEST(TlsSession, BytesMayBeCutAnywhere) {
  const base::TempFolder folder;
  TestCertificate("cut").write(folder.file("cert"), folder.file("key"));
  const auto identity =
      security::TlsIdentity::load({folder.file("cert"), folder.file("key")}).value();
  std::mt19937 random(11);
  for (int round = 0; round < 8; ++round) {
    const auto session = identity->new_session();
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
    SSL* client = SSL_new(context);
    SSL_set_bio(client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(client);
    std::string up(40'000, '\0');
    for (char& c : up) c = static_cast<char>(random());
    const std::string down = up.substr(123) + up;
    std::string to_server;
    std::string to_client;
    std::string at_server;
    std::string at_client;
    std::vector<char> room(16 << 10);
    bool sent = false;
    bool answered = false;
    while (at_client.size() < down.size()) {
      if (SSL_do_handshake(client) == 1 && !sent) {
        sent = SSL_write(client, up.data(), static_cast<int>(up.size())) > 0;
      }
      char* data = nullptr;
      const long n_out = BIO_get_mem_data(SSL_get_wbio(client), &data);
      to_server.append(data, static_cast<std::size_t>(n_out));
      BIO_reset(SSL_get_wbio(client));
      const std::size_t n_in = std::min<std::size_t>(to_server.size(), 1 + random() % 700);
      session->receive(std::string_view(to_server).substr(0, n_in));
      to_server.erase(0, n_in);
      while (const std::size_t n = session->read(room)) at_server.append(room.data(), n);
      ASSERT_NE(session->state(), security::TlsSession::State::kBroken);
      if (at_server.size() == up.size() && !std::exchange(answered, true)) {
        ASSERT_TRUE(session->write(down));
      }
      session->take_output(to_client);
      const std::size_t n_down = std::min<std::size_t>(to_client.size(), 1 + random() % 900);
      BIO_write(SSL_get_rbio(client), to_client.data(), static_cast<int>(n_down));
      to_client.erase(0, n_down);
      const int n = SSL_read(client, room.data(), static_cast<int>(room.size()));
      if (n > 0) at_client.append(room.data(), static_cast<std::size_t>(n));
      ERR_clear_error();
    }
    EXPECT_TRUE(at_server == up);
    EXPECT_TRUE(at_client == down);
    SSL_shutdown(client);
    char* data = nullptr;
    const long n_out = BIO_get_mem_data(SSL_get_wbio(client), &data);
    session->receive(to_server + std::string(data, static_cast<std::size_t>(n_out)));
    EXPECT_EQ(session->read(room), 0U);
    EXPECT_EQ(session->state(), security::TlsSession::State::kEnded);
    SSL_free(client);
    SSL_CTX_free(context);
  }
}

}  // namespace
}  // namespace coxswain::http
