// A load from packed weights gives what the load gave that packed them, and nothing that is wrong with them is more
// than a warning.

#include "model/weight_cache.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/test_models.h"

namespace coxswain::model {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Loaded {
  std::uint64_t fingerprint = 0;
  std::uint64_t weight_bytes = 0;
  std::vector<WeightShare> shares;
  std::vector<float> logits;

  friend bool operator==(const Loaded&, const Loaded&) = default;
};

class WeightCacheTest : public testing::Test {
 protected:
  void write_model(std::string_view config) {
    const Status written =
        write_random_checkpoint(small_config(config), {.dir = model_.path(), .progress = {}});
    ASSERT_TRUE(written.ok()) << written.message();
  }

  // Also sets cached_, written_, path_ and warnings_.
  Loaded load(const kernels::KernelTable& table,
              const std::string& quantize = "",
              std::uint64_t bytes_max = 0) {
    kernels::ExecContext exec(2);
    LoadOptions options;
    options.model_dir = model_.path();
    options.quantize = quantize;
    options.kernels = &table;
    options.exec = &exec;
    options.cache = {.folder = folder(), .bytes_max = bytes_max, .maker = std::string(table.id)};
    auto model = Model::load(options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!model.ok()) return {};
    const ModelInfo& info = (*model)->info();
    cached_ = info.weight_cache.bytes_read;
    written_ = info.weight_cache.bytes_written;
    path_ = info.weight_cache.path;
    warnings_ = info.warnings;
    return {
        info.fingerprint, info.weight_bytes, info.weight_shares, logits_of_a_prompt(**model, exec)};
  }

  std::string folder() const { return cache_.path() + "/below/it"; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder(), error)) out.push_back(entry.path());
    return out;
  }

  const kernels::KernelTable& best_ = **kernels::select_kernels("");
  base::TempFolder model_;
  base::TempFolder cache_;
  std::uint64_t cached_ = 0;
  std::uint64_t written_ = 0;
  std::string path_;
  std::vector<std::string> warnings_;
};

TEST_F(WeightCacheTest, EveryFormatAndSetComesBackAsItWasPacked) {
  for (const char* config :
       {R"({"model_type":"llama","tie_word_embeddings":true,"attention_bias":true})",
        R"({"model_type":"gpt2","n_embd":192,"n_layer":2,"n_head":4,"n_positions":128})",
        R"({"model_type":"mixtral","num_local_experts":3,"num_experts_per_tok":2})"}) {
    write_model(config);
    for (const kernels::Isa isa : kernels::available_isas()) {
      const kernels::KernelTable& table = **kernels::select_kernels(kernels::name_of(isa));
      for (const char* quantize : {"", "int8", "int4", "int4-g128"}) {
        SCOPED_TRACE(std::string(config) + " " + std::string(table.id) + " " + quantize);
        fs::remove_all(folder());
        const Loaded packed = load(table, quantize);
        EXPECT_EQ(cached_, 0U);
        EXPECT_THAT(warnings_, IsEmpty());
        ASSERT_THAT(files(), ElementsAre(fs::path(path_)));
        EXPECT_EQ(written_, fs::file_size(path_));
        EXPECT_EQ(load(table, quantize), packed);
        EXPECT_GT(cached_, packed.weight_bytes / 2);
        EXPECT_EQ(written_, 0U);
        EXPECT_THAT(warnings_, IsEmpty());
        EXPECT_THAT(files(), ElementsAre(fs::path(path_)));
      }
    }
  }
}

TEST_F(WeightCacheTest, OtherOptionsAndOtherWeightsHaveAFileOfTheirOwn) {
  write_model(R"({"model_type":"llama"})");
  const Loaded plain = load(best_);
  const Loaded int8 = load(best_, "int8");
  EXPECT_EQ(cached_, 0U);
  EXPECT_NE(int8, plain);
  EXPECT_EQ(files().size(), 2U);
  // The same bytes at another time are not trusted to be the same.
  const std::string weights = model_.path() + "/model.safetensors";
  fs::last_write_time(weights, fs::last_write_time(weights) + std::chrono::seconds(1));
  EXPECT_EQ(load(best_), plain);
  EXPECT_EQ(cached_, 0U);
  EXPECT_EQ(files().size(), 3U);
}

TEST_F(WeightCacheTest, DamageIsAWarningAndRepaired) {
  write_model(R"({"model_type":"llama"})");
  const Loaded packed = load(best_, "int8");
  ASSERT_EQ(files().size(), 1U);
  const std::string path = files().front();
  const auto size = static_cast<std::int64_t>(fs::file_size(path));
  for (const std::int64_t at : {std::int64_t{3}, std::int64_t{40}, size / 2, size - 1}) {
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(at);
      const int byte = file.get();
      file.seekp(at);
      file.put(static_cast<char>(byte ^ 0x40));
    }
    EXPECT_EQ(load(best_, "int8"), packed) << at;
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr(path))) << at;
    EXPECT_EQ(load(best_, "int8"), packed) << at;
    EXPECT_THAT(warnings_, IsEmpty()) << at;
    EXPECT_GT(cached_, 0U) << at;
  }
  fs::resize_file(path, static_cast<std::uintmax_t>(size / 3));
  EXPECT_EQ(load(best_, "int8"), packed);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("is too short")));
}

TEST_F(WeightCacheTest, TheFilesUsedLongestAgoGoFirst) {
  write_model(R"({"model_type":"llama"})");
  load(best_, "int8");
  const fs::path int8 = files().front();
  load(best_, "int4");
  fs::path int4;
  for (const fs::path& path : files()) int4 = path != int8 ? path : int4;
  const std::uint64_t both = fs::file_size(int8) + fs::file_size(int4);
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(5);
  fs::last_write_time(int8, long_ago);
  fs::last_write_time(int4, long_ago + std::chrono::hours(1));
  load(best_, "int8");  // used now
  load(best_, "int4-g128", both);
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_EQ(files().size(), 2U);
  EXPECT_TRUE(fs::exists(int8));
  EXPECT_FALSE(fs::exists(int4));
}

TEST_F(WeightCacheTest, WhatDoesNotFitIsNotKept) {
  write_model(R"({"model_type":"llama"})");
  load(best_, "", 1000);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("the limit of their folder is 1000")));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(WeightCacheTest, AFolderThatCannotBeMadeIsAWarning) {
  write_model(R"({"model_type":"llama"})");
  std::ofstream(cache_.path() + "/below") << "a file";
  load(best_);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("packed weights are not kept")));
}

TEST_F(WeightCacheTest, WhatAKilledProcessLeftIsRemoved) {
  write_model(R"({"model_type":"llama"})");
  fs::create_directories(folder());
  for (const char* name : {"/old.weights.unfinished-abcdef", "/new.weights.unfinished-abcdef"})
    std::ofstream(folder() + name) << "x";
  fs::last_write_time(folder() + "/old.weights.unfinished-abcdef",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  load(best_);
  EXPECT_FALSE(fs::exists(folder() + "/old.weights.unfinished-abcdef"));
  EXPECT_TRUE(fs::exists(folder() + "/new.weights.unfinished-abcdef"));
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(WeightCacheTest, TwoMayWriteAtOnce) {
  write_model(R"({"model_type":"llama"})");
  const auto write = [&] {
    LoadOptions options;
    options.model_dir = model_.path();
    options.kernels = &best_;
    options.cache = {.folder = folder(), .maker = std::string(best_.id)};
    EXPECT_TRUE(Model::load(options).ok());
  };
  std::thread other(write);
  write();
  other.join();
  EXPECT_EQ(files().size(), 1U);
  load(best_);
  EXPECT_GT(cached_, 0U);
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace coxswain::model
