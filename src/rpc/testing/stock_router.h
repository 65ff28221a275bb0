#pragma once
// StockRouter: a test fixture that calls generate.v3 and v2 as a stock router does, over a real socket, a FakeRunner
// behind the service.
//
// Thread rule: the fixture belongs to the test's thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <proto/generate_v2.grpc.pb.h>
#include <proto/generate_v3.grpc.pb.h>

#include "rpc/testing/fake_codec.h"
#include "rpc/testing/served_shard.h"

namespace coxswain::rpc::testing {

namespace v2 = ::generate::v2;
namespace v3 = ::generate::v3;
inline constexpr std::uint32_t kBlock = 4;  // tokens

inline void set_neutral(v3::NextTokenChooserParameters& p) {
  p.set_temperature(1.0F);
  p.set_top_p(1.0F);
  p.set_typical_p(1.0F);
  p.set_repetition_penalty(1.0F);
}

// As the router writes it: blocks for prompt + max_new - 1 positions and their slots.
inline v3::Request request_of(std::uint64_t id,
                              const std::string& text,
                              std::uint32_t max_new,
                              std::uint32_t first_block) {
  v3::Request request;
  request.set_id(id);
  request.set_inputs(text);
  request.mutable_input_chunks()->add_chunks()->set_text(text);
  request.set_truncate(100);
  request.set_add_special_tokens(false);
  set_neutral(*request.mutable_parameters());
  request.mutable_stopping_parameters()->set_max_new_tokens(max_new);
  const auto n = static_cast<std::uint32_t>(text.size()) + max_new - 1;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (i % kBlock == 0) request.add_blocks(first_block + i / kBlock);
    request.add_slots((first_block + i / kBlock) * kBlock + i % kBlock);
  }
  return request;
}

// What the fake says to `text`, `n` tokens long.
inline std::string expected_text(const std::string& text, std::uint32_t n) {
  return expected_output(*FakeCodec().encode(text, false), n).text;
}

class StockRouter : public ServedShard {
 protected:
  void SetUp() override { start(runner_); }

  void start(StepRunner& runner) {
    serve(runner);
    auto channel = grpc::CreateChannel("unix:" + socket(), grpc::InsecureChannelCredentials());
    stub_ = v3::TextGenerationService::NewStub(channel);
    stub2_ = v2::TextGenerationService::NewStub(channel);
  }

  // The error text; empty if the call went well.
  std::string prefill(const v3::PrefillRequest& request, v3::PrefillResponse& response) {
    grpc::ClientContext context;
    return text_of(stub_->Prefill(&context, request, &response));
  }
  std::string prefill(std::uint64_t batch,
                      const std::vector<v3::Request>& requests,
                      v3::PrefillResponse& response) {
    return prefill(prefill_of(batch, requests), response);
  }
  static v3::PrefillRequest prefill_of(std::uint64_t batch,
                                       const std::vector<v3::Request>& requests) {
    v3::PrefillRequest request;
    request.mutable_batch()->set_id(batch);
    request.mutable_batch()->set_size(static_cast<std::uint32_t>(requests.size()));
    for (const v3::Request& r : requests) *request.mutable_batch()->add_requests() = r;
    return request;
  }
  std::string decode(const std::vector<std::uint64_t>& batches, v3::DecodeResponse& response) {
    v3::DecodeRequest request;
    for (const std::uint64_t id : batches) request.add_batches()->set_id(id);
    grpc::ClientContext context;
    return text_of(stub_->Decode(&context, request, &response));
  }
  std::string filter(std::uint64_t batch,
                     const std::vector<std::uint64_t>& keep,
                     v3::FilterBatchResponse& response) {
    v3::FilterBatchRequest request;
    request.set_batch_id(batch);
    for (const std::uint64_t id : keep) request.add_request_ids(id);
    grpc::ClientContext context;
    return text_of(stub_->FilterBatch(&context, request, &response));
  }
  std::string clear(std::optional<std::uint64_t> id) {
    v3::ClearCacheRequest request;
    if (id) request.set_id(*id);
    v3::ClearCacheResponse response;
    grpc::ClientContext context;
    return text_of(stub_->ClearCache(&context, request, &response));
  }
  static std::string text_of(const grpc::Status& status) {
    if (status.ok()) return {};
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
    return status.error_message();
  }
  // The error of a prefill with this one request.
  std::string refusal(const v3::Request& request) {
    v3::PrefillResponse response;
    std::string text = prefill(900, {request}, response);
    EXPECT_EQ(clear(900), "");
    return text;
  }

  std::optional<FakeRunner> other_;  // a runner of another shape, for start()
  std::unique_ptr<v3::TextGenerationService::Stub> stub_;
  std::unique_ptr<v2::TextGenerationService::Stub> stub2_;
};

}  // namespace coxswain::rpc::testing
