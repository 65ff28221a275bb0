#pragma once
// Test help: a model without weights whose logits depend on every token of the prefix, read back
// through block tables from the KV store. A wrong table, position, copy or row changes the answer.
//
// Thread rule: as Model.

#include <cstdint>
#include <memory>
#include <optional>

#include <coxswain/text_codec.h>

#include "model/model.h"

namespace coxswain::runner {

struct FakeModelOptions {
  std::uint32_t vocab_size = 64;
  std::uint32_t n_groups = 2;
  std::optional<TokenId> nan_after = {};  // logits after this token are NaN
  std::uint32_t n_positions = 512;        // batches with a position beyond are refused
  std::optional<TokenId> favourite = {};  // this id always has the largest logit
};

// End token: id 2.
std::unique_ptr<model::Model> make_fake_model(const FakeModelOptions& options = {});

// Id 0 to 2 are special ("<0>" to "<2>"); 3 and 4 are the two bytes of U+00E9; others are one letter.
std::shared_ptr<const TextCodec> make_fake_codec();

}  // namespace coxswain::runner
