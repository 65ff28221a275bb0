// What is loaded does not depend on the threads that load it.

#include "model/weight_loader.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/single_sequence.h"
#include "model/test_models.h"

namespace coxswain::model {
namespace {

using testing::HasSubstr;

// Matrices of several slices: straight rows, tied and not; rows in turns; transposed; experts.
constexpr std::string_view kConfigs[] = {
    R"({"model_type":"llama","vocab_size":9001,"intermediate_size":6007})",
    R"({"model_type":"llama","vocab_size":9001,"tie_word_embeddings":true,"attention_bias":true})",
    R"({"model_type":"bloom","vocab_size":6001,"n_embed":192,"n_layer":2,"num_attention_heads":6})",
    R"({"model_type":"gpt2","vocab_size":6001,"n_embd":192,"n_inner":1501,"n_layer":2,"n_head":4,"n_positions":128})",
    R"({"model_type":"mixtral","num_local_experts":5,"num_experts_per_tok":2,"intermediate_size":6007})"};

struct Loaded {
  std::uint64_t fingerprint = 0;
  std::uint64_t bytes = 0;
  std::vector<float> logits;

  friend bool operator==(const Loaded&, const Loaded&) = default;
};

// With `n_threads` 0 by the calling thread alone. Tasks come in an order of their own.
Loaded load(LoadOptions options, std::size_t n_threads) {
  std::optional<kernels::ExecContext> exec;
  if (n_threads != 0) {
    exec.emplace(n_threads);
    exec->pool().shuffle_tasks(n_threads);
    options.exec = &*exec;
  }
  std::uint64_t last = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    last = done;
  };
  auto model = Model::load(options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return {};
  EXPECT_GT(last, 0U);
  const std::vector<TokenId> ids{1, 5, 9, 60};
  kernels::ExecContext alone(1);
  auto sequence = SingleSequence::create(**model, alone, {});
  EXPECT_TRUE(sequence.ok()) << sequence.status().message();
  sequence->restart(4);
  EXPECT_TRUE(sequence->feed(ids).ok());
  return {(*model)->info().fingerprint, (*model)->info().weight_bytes, *sequence->logits(4)};
}

TEST(WeightLoader, ThreadsChangeNothing) {
  for (const std::string_view config : kConfigs) {
    const base::TempFolder folder;
    const Status written =
        write_random_checkpoint(small_config(config), {.dir = folder.path(), .progress = {}});
    ASSERT_TRUE(written.ok()) << written.message();
    for (const std::string quantize : {"", "int8", "int4"}) {
      LoadOptions options;
      options.model_dir = folder.path();
      options.quantize = quantize;
      options.kernels = kernels::select_kernels("").value();
      const Loaded alone = load(options, 0);
      EXPECT_EQ(load(options, 1), alone) << config << " " << quantize;
      EXPECT_EQ(load(options, 3), alone) << config << " " << quantize;
    }
  }
}

// The file becomes shorter once its header has been checked.
TEST(WeightLoader, AFileThatEndsEarlyIsTheSameErrorOnAnyThread) {
  const base::TempFolder folder;
  const auto config = small_config(kConfigs[0]);
  ASSERT_TRUE(write_random_checkpoint(config, {.dir = folder.path(), .progress = {}}).ok());
  const auto checkpoint = weights::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const auto at = checkpoint->find("model.embed_tokens.weight");
  ASSERT_TRUE(at);
  std::filesystem::resize_file(folder.file("model.safetensors"),
                               at.tensor->begin + at.tensor->n_bytes() / 2);
  Rows rows;
  rows.tensor = at.tensor->name;
  rows.shape = at.tensor->shape;
  rows.count = 9001;
  const std::vector<std::string> prefixes{""};
  const kernels::KernelTable& table = *kernels::select_kernels("").value();
  std::vector<std::string> messages;
  for (const std::size_t n_threads : {std::size_t{1}, std::size_t{3}}) {
    kernels::ExecContext exec(n_threads);
    WeightLoader loader(*checkpoint, prefixes, table, {}, &exec);
    const auto linear = loader.linear({{rows}, 48}, kernels::formats::kInt8);
    EXPECT_EQ(linear.status().code(), Code::kDataLoss);
    messages.push_back(linear.status().message());
  }
  EXPECT_THAT(messages[0], HasSubstr("the file ends inside its data"));
  EXPECT_EQ(messages[0], messages[1]);
}

}  // namespace
}  // namespace coxswain::model
