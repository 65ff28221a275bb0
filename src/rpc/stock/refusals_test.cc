// What the stock service refuses: which words, and that it hurts nobody else.

#include <cstddef>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>
#include <proto/generate_v3.pb.h>

#include "rpc/testing/stock_router.h"

namespace coxswain::rpc {
namespace {

namespace v3 = ::generate::v3;
using testing::expected_text;
using testing::request_of;
using testing::StockRouter;

TEST_F(StockRouter, BadCallersAreRefusedAndHurtNobody) {
  v3::PrefillResponse response;
  ASSERT_EQ(prefill(1, {request_of(1, "hello", 20, 1)}, response), "");
  const std::size_t live = runner_.live().size();

  EXPECT_EQ(refusal(request_of(2, "abc", 2, 64)), "`blocks`: 64 is not below 64");
  EXPECT_EQ(refusal(request_of(2, "abc", 2, 3)), "`blocks`: 3 is in use by another sequence");
  v3::Request request = request_of(2, "hello!", 2, 30);
  request.set_blocks(0, 1);  // reads a block that another one writes
  for (int i = 0; i < 4; ++i) request.set_slots(i, 4U + static_cast<std::uint32_t>(i));
  request.set_cache_len(4);
  EXPECT_EQ(refusal(request), "`blocks`: 1 is in use by another sequence");
  request = request_of(2, "hello", 2, 30);
  request.set_blocks(1, 30);
  for (int i = 4; i < 6; ++i) request.set_slots(i, 116U + static_cast<std::uint32_t>(i));
  EXPECT_EQ(refusal(request), "`blocks`: 30 is there twice");
  request = request_of(2, "abc", 2, 30);
  request.set_slots(1, 3);
  EXPECT_EQ(refusal(request), "`slots` must be cell 121 for position 1. Given: 3");
  request = request_of(2, "abc", 2, 30);
  request.mutable_slots()->RemoveLast();
  EXPECT_EQ(refusal(request), "`slots` must be between 4 and 4 in number. Given: 3");
  request = request_of(2, "abc", 2, 30);
  request.mutable_stopping_parameters()->set_max_new_tokens(3);
  EXPECT_EQ(refusal(request), "`blocks` must be enough for 5 tokens. Given: 1 blocks");
  request = request_of(2, "abc", 2, 30);
  request.set_cache_len(3);
  EXPECT_EQ(refusal(request), "`cache_len` must be less than the prompt of 3. Given: 3");
  request = request_of(2, "abc", 2, 30);
  request.set_chunk_len(4);
  EXPECT_EQ(refusal(request), "Rust and Python tokenizers are not aligned");
  request = request_of(2, "abc", 2, 30);
  request.mutable_stopping_parameters()->set_max_new_tokens(0xFFFFFFFFu);
  EXPECT_EQ(refusal(request),
            "`max_new_tokens` must be such that prompt and output have at most 200 tokens. Given: "
            "4294967298");

  v3::DecodeResponse decoded;
  EXPECT_EQ(decode({1}, decoded), "");
  EXPECT_EQ(decoded.generations(0).tokens().texts(0), expected_text("hello", 2).substr(1));
  EXPECT_EQ(runner_.live().size(), live);
}

TEST_F(StockRouter, BadParametersAreRefusedByName) {
  v3::Request request = request_of(2, "abc", 2, 30);
  request.mutable_parameters()->set_temperature(0);
  EXPECT_EQ(refusal(request), "`temperature` must be > 0.0. Given: 0");
  request = request_of(2, "abc", 2, 30);
  request.mutable_parameters()->set_top_p(1.5F);
  EXPECT_EQ(refusal(request), "`top_p` must be > 0.0 and <= 1.0. Given: 1.5");
  request = request_of(2, "abc", 2, 30);
  request.mutable_parameters()->set_repetition_penalty(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(refusal(request), "`repetition_penalty` must be a finite number. Given: nan");
  request = request_of(2, "abc", 2, 30);
  request.mutable_parameters()->set_grammar("(a");
  EXPECT_EQ(refusal(request), "`grammar_type` must be 1 or 2 beside `grammar`. Given: 0");
  request.mutable_parameters()->set_grammar_type(v3::GRAMMAR_TYPE_REGEX);
  EXPECT_EQ(refusal(request).substr(0, 24), "`grammar` is not valid: ");
  request = request_of(2, "abc", 2, 30);
  request.set_adapter_id("fast");
  EXPECT_EQ(refusal(request), "`adapter_id` is not supported yet");
  request = request_of(2, "abc", 2, 30);
  request.set_truncate(0);
  EXPECT_EQ(refusal(request), "`truncate` must be > 0. Given: 0");
  request = request_of(2, "abc", 2, 30);
  request.mutable_stopping_parameters()->set_max_new_tokens(0);
  EXPECT_EQ(refusal(request), "`max_new_tokens` must be strictly positive. Given: 0");
  request = request_of(2, "", 2, 30);
  EXPECT_EQ(refusal(request), "`inputs` must be at least one token. Given: 0");
  request = request_of(2, "abc", 2, 30);
  request.mutable_input_chunks()->add_chunks()->set_text("more");
  EXPECT_EQ(refusal(request), "Request contained more than one text chunk");
  request = request_of(2, "abc", 2, 30);
  request.mutable_input_chunks()->add_chunks()->mutable_image()->set_mimetype("image/png");
  EXPECT_EQ(refusal(request),
            "`input_chunks` has an image of type 'image/png': this model reads text");
  request = request_of(2, "abc", 2, 30);
  request.mutable_input_chunks()->add_chunks();
  EXPECT_EQ(refusal(request), "`input_chunks` has a chunk of a kind that is not known here");
  request = request_of(2, "abc", 2, 30);
  request.mutable_input_chunks()->clear_chunks();
  EXPECT_EQ(refusal(request), "Request without a text chunk");
  v3::PrefillResponse response;
  EXPECT_EQ(prefill(1, {}, response), "Batch must have at least one request");
  EXPECT_EQ(prefill(1, {request_of(5, "a", 1, 1), request_of(5, "b", 1, 2)}, response),
            "request id 5 is twice in the batch");
  EXPECT_EQ(runner_.n_submitted(), 0U);
}

}  // namespace
}  // namespace coxswain::rpc
