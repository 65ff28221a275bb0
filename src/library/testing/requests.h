#pragma once
// Requests for tests over a FakeRunner, and what comes of them.
//
// Thread rule: any thread.

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/executor.h>
#include <coxswain/request.h>

#include "batch/testing/fake_runner.h"

namespace coxswain::library::testing {

// A prompt of `n_prompt` ids from `first` on, inside the fake's vocabulary of 50.
inline Request make_request(int n_prompt, std::uint32_t n_new, TokenId first = 1) {
  Request out;
  for (int i = 0; i < n_prompt; ++i) out.prompt.ids.push_back((first + i) % 50);
  out.stopping.max_new_tokens = n_new;
  return out;
}

inline batch::testing::ExpectedOutput expected(const batch::testing::FakeRunnerOptions& fake,
                                               const Request& request) {
  batch::GenerationRequest r;
  r.prompt = request.prompt.ids;
  r.sampling = request.sampling;
  r.stopping = request.stopping;
  r.cache_salt = request.cache_salt;
  r.prompt_logprobs = request.prompt_logprobs;
  return batch::testing::expected_output(fake, r);
}

inline std::vector<TokenId> ids_of(const std::vector<OutputToken>& tokens) {
  std::vector<TokenId> out;
  out.reserve(tokens.size());
  for (const OutputToken& token : tokens) out.push_back(token.id);
  return out;
}

// Appends `piece` to what has come before.
inline void append(Response& whole, Response piece) {
  whole.id = piece.id;
  whole.text += piece.text;
  std::ranges::move(piece.tokens, std::back_inserter(whole.tokens));
  std::ranges::move(piece.prompt, std::back_inserter(whole.prompt));
  whole.final = piece.final;
  whole.status = std::move(piece.status);
  whole.finish = piece.finish;
  whole.usage = piece.usage;
  whole.cumulative_logprob = piece.cumulative_logprob;
}

using Answers = std::map<RequestId, Response>;

inline void append(Answers& answers, Response piece) {
  Response& whole = answers[piece.id];
  append(whole, std::move(piece));
}

// All responses of a request as one.
inline Response await_whole(Executor& engine, RequestId id) {
  Response whole;
  while (!whole.final) append(whole, engine.await(id));
  return whole;
}

}  // namespace coxswain::library::testing
