// A model in memory that replicas share computes the same bits as one in memory of its own, whoever filled it.

#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/testing/temp_folder.h"
#include "model/test_models.h"

namespace coxswain::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Loaded {
  std::uint64_t fingerprint = 0;
  std::vector<float> logits;

  friend bool operator==(const Loaded&, const Loaded&) = default;
};

class SharedWeightsTest : public testing::Test {
 protected:
  ~SharedWeightsTest() override { close(fd_); }

  void write_model(std::string_view config) {
    const Status written =
        write_random_checkpoint(small_config(config), {.dir = model_.path(), .progress = {}});
    ASSERT_TRUE(written.ok()) << written.message();
  }
  void empty_file() {
    close(fd_);
    fd_ = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  }
  // Also sets use_ and warnings_. The model lives as long as the test.
  Loaded load(int fd,
              const kernels::KernelTable& table,
              const std::string& quantize = "",
              std::size_t n_threads = 2) {
    kernels::ExecContext exec(n_threads);
    LoadOptions options;
    options.model_dir = model_.path();
    options.quantize = quantize;
    options.kernels = &table;
    options.exec = &exec;
    options.cache = {.folder = cache_dir_, .maker = std::string(table.id)};
    options.shared_fd = fd;
    auto loaded = Model::load(options);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    if (!loaded.ok()) return {};
    Model& model = **models_.insert(models_.end(), std::move(loaded).value());
    use_ = model.info().shared;
    cached_ = model.info().weight_cache;
    warnings_ = model.info().warnings;
    return {model.info().fingerprint, logits_of_a_prompt(model, exec)};
  }

  const kernels::KernelTable& best_ = **kernels::select_kernels("");
  base::TempFolder model_;
  int fd_ = -1;
  std::string cache_dir_;
  std::vector<std::unique_ptr<Model>> models_;
  SharedWeights use_;
  WeightCacheUse cached_;
  std::vector<std::string> warnings_;
};

TEST_F(SharedWeightsTest, EveryFormatAndSetComputesTheSameBits) {
  for (const char* config :
       {R"({"model_type":"llama","tie_word_embeddings":true,"attention_bias":true})",
        R"({"model_type":"gpt2","n_embd":192,"n_layer":2,"n_head":4,"n_positions":128})",
        R"({"model_type":"mixtral","num_local_experts":3,"num_experts_per_tok":2})"}) {
    write_model(config);
    for (const kernels::Isa isa : kernels::available_isas()) {
      const kernels::KernelTable& table = **kernels::select_kernels(kernels::name_of(isa));
      for (const char* quantize : {"", "int8", "int4"}) {
        SCOPED_TRACE(std::string(config) + " " + std::string(table.id) + " " + quantize);
        const Loaded own = load(-1, table, quantize);
        EXPECT_EQ(use_.bytes, 0U);
        empty_file();
        EXPECT_EQ(load(fd_, table, quantize), own);
        EXPECT_FALSE(use_.was_filled);
        EXPECT_GT(use_.bytes, 0U);
        EXPECT_EQ(load(fd_, table, quantize, 1), own);
        EXPECT_TRUE(use_.was_filled);
        EXPECT_THAT(warnings_, IsEmpty());
        models_.clear();
      }
    }
  }
}

TEST_F(SharedWeightsTest, OtherWeightsAreNotTaken) {
  write_model(R"({"model_type":"llama"})");
  const Loaded plain = load(-1, best_);
  const Loaded int8 = load(-1, best_, "int8");
  empty_file();
  EXPECT_EQ(load(fd_, best_, "int8"), int8);
  EXPECT_EQ(load(fd_, best_), plain);
  EXPECT_EQ(use_.bytes, 0U);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("weights are not shared")));
  // Written anew, if with the same bytes.
  const std::string weights = model_.path() + "/model.safetensors";
  std::filesystem::last_write_time(
      weights, std::filesystem::last_write_time(weights) + std::chrono::seconds(1));
  EXPECT_EQ(load(fd_, best_, "int8"), int8);
  EXPECT_EQ(use_.bytes, 0U);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("weights are not shared")));
}

TEST_F(SharedWeightsTest, TheFileOfPackedWeightsFillsThem) {
  write_model(R"({"model_type":"llama"})");
  const Loaded own = load(-1, best_, "int8");
  const base::TempFolder folder;
  cache_dir_ = folder.path();
  empty_file();
  EXPECT_EQ(load(fd_, best_, "int8"), own);
  EXPECT_GT(cached_.bytes_written, 0U);
  empty_file();
  EXPECT_EQ(load(fd_, best_, "int8"), own);
  EXPECT_GT(cached_.bytes_read, 0U);
  EXPECT_FALSE(use_.was_filled);
  EXPECT_EQ(load(fd_, best_, "int8"), own);
  EXPECT_TRUE(use_.was_filled);
  EXPECT_EQ(cached_.path, "");  // it had no need to look there
}

TEST_F(SharedWeightsTest, TheModelNeedsTheFileNoMore) {
  write_model(R"({"model_type":"llama"})");
  empty_file();
  const Loaded first = load(fd_, best_, "int8");
  const Loaded second = load(fd_, best_, "int8");
  empty_file();
  models_.erase(models_.begin());  // who filled it
  EXPECT_EQ(load(fd_, best_, "int8"), first);
  EXPECT_FALSE(use_.was_filled);
  EXPECT_EQ(second, first);
}

}  // namespace
}  // namespace coxswain::model
