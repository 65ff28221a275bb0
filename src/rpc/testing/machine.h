#pragma once
// Shards that listen for other machines, for tests, and the certificates of their fleet.
//
// Thread rule: one thread.

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/temp_folder.h"
#include "batch/testing/fake_runner.h"
#include "rpc/shard_service.h"
#include "rpc/testing/fake_codec.h"
#include "security/testing/test_certificate.h"
#include "telemetry/log.h"

namespace coxswain::rpc::testing {

class Authority {
 public:
  // A certificate of this authority under that name. `valid_s`: as of TestCertificate.
  security::PeerFiles files(const std::string& name, long valid_s = 3600) const {
    const security::testing::TestCertificate own(name, &authority_, valid_s);
    security::PeerFiles out{.certificate = folder_.file(name + ".pem"),
                            .key = folder_.file(name + ".key"),
                            .ca = folder_.file("ca.pem")};
    own.write(out.certificate, out.key);
    authority_.write(out.ca, folder_.file("ca.key"));
    return out;
  }

 private:
  security::testing::TestCertificate authority_{"authority"};
  base::TempFolder folder_;
};

// A shard at a free port of 127.0.0.1.
class Machine {
 public:
  explicit Machine(const security::PeerFiles& files) : Machine(files, files) {}
  // `as_client`: what it shows to other shards, until it is started anew.
  Machine(const security::PeerFiles& files,
          const security::PeerFiles& as_client,
          std::vector<IpNetwork> ucx_networks = {})
      : ucx_networks_(std::move(ucx_networks)), runner_(runner_options()) {
    // The service has one set of files; what it shows to shards is read when it connects, what it listens with before.
    const security::PeerFiles own{
        .certificate = folder_.file("own.pem"), .key = folder_.file("own.key"), .ca = files.ca};
    copy(files, own);
    service_ = ShardService::start(runner_, codec_, options(own, "127.0.0.1:0"), log_).value();
    copy(as_client, own);
  }

  static Status try_to_listen(const security::PeerFiles& files, const std::string& address) {
    base::TempFolder folder;
    batch::testing::FakeRunner runner(runner_options());
    FakeCodec codec;
    telemetry::Logger log(log_options());
    ShardServiceOptions options;
    options.socket_path = folder.file("shard");
    options.fleet_address = address;
    options.peer_files = files;
    return ShardService::start(runner, codec, options, log).status();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(service_->fleet_port()); }
  std::string place() const { return "tcp://" + address(); }
  const batch::testing::FakeRunner& runner() const { return runner_; }
  // Until end_hang() attachments neither come nor go.
  void hang() {
    runner_.on_attachment = [this] { hung_.wait(); };
  }
  void end_hang() { hang_.set_value(); }
  // It serves no more; what it was in the middle of has ended.
  void stop() { service_.reset(); }

 private:
  static batch::testing::FakeRunnerOptions runner_options() {
    auto out = fake_shard_options();
    out.capabilities.attachments = true;
    out.capabilities.attachment_bytes_max = 8 << 20;
    return out;
  }
  static telemetry::LogOptions log_options() {
    return {.level = telemetry::Level::kError, .target = "rpc_test", .file_descriptor = -1};
  }
  static void copy(const security::PeerFiles& from, const security::PeerFiles& to) {
    using std::filesystem::copy_options;
    std::filesystem::copy_file(from.certificate, to.certificate, copy_options::overwrite_existing);
    std::filesystem::copy_file(from.key, to.key, copy_options::overwrite_existing);
  }
  ShardServiceOptions options(const security::PeerFiles& files, const std::string& address) const {
    ShardServiceOptions out;
    out.socket_path = folder_.file("shard");
    out.fleet_address = address;
    out.peer_files = files;
    out.ucx_networks = ucx_networks_;
    return out;
  }

  const std::vector<IpNetwork> ucx_networks_;
  std::promise<void> hang_;
  std::shared_future<void> hung_ = hang_.get_future().share();
  base::TempFolder folder_;
  telemetry::Logger log_{log_options()};
  FakeCodec codec_;
  batch::testing::FakeRunner runner_;
  std::unique_ptr<ShardService> service_;
};

}  // namespace coxswain::rpc::testing
