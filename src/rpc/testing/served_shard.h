#pragma once
// ServedShard: a test fixture with a FakeRunner behind a ShardService on a socket of its own.
//
// Thread rule: the fixture belongs to the test's thread.

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "batch/testing/fake_runner.h"
#include "rpc/shard_service.h"
#include "rpc/testing/fake_codec.h"
#include "telemetry/log.h"

namespace coxswain::rpc::testing {

using batch::testing::FakeRunner;

class ServedShard : public ::testing::Test {
 protected:
  explicit ServedShard(const batch::testing::FakeRunnerOptions& runner = fake_shard_options())
      : runner_(runner) {}

  void TearDown() override {
    service_.reset();
    for (const std::string& what : runner_.violations())
      ADD_FAILURE() << "the runner refuses: " << what;
  }

  // Serves `runner` in place of whatever was served before.
  void serve(StepRunner& runner, ShardServiceOptions options = {}) {
    service_.reset();
    options.socket_path = socket();
    auto service = ShardService::start(runner, *codec_, options, log_);
    ASSERT_TRUE(service.ok()) << service.status().message();
    service_ = std::move(service).value();
  }

  std::string socket() const { return folder_.file("shard-0"); }

  base::TempFolder folder_;
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "rpc_test", .file_descriptor = -1}};
  FakeRunner runner_;
  std::shared_ptr<const FakeCodec> codec_ = std::make_shared<FakeCodec>();
  std::unique_ptr<ShardService> service_;
};

}  // namespace coxswain::rpc::testing
