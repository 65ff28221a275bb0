// A model whose weights come from another process computes the same bits, whatever arrives and wherever it stops.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
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

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using weights::ImageStore;

// Copies what a store has, up to a number of bytes.
class StoreSource final : public weights::ImageSource {
 public:
  StoreSource(std::shared_ptr<ImageStore> store, std::uint64_t bytes_max)
      : store_(std::move(store)), left_(bytes_max) {}

  Result<std::uint64_t> open(const std::string& key) override {
    const auto what = store_->description();
    if (!what || what->key != key) return Status(Code::kUnavailable, "other weights");
    return what->fingerprint;
  }
  Status read(std::uint64_t identity, std::span<std::byte> out, Arrived arrived) override {
    const auto image = *store_->image(next_++, TimePoint::min());
    EXPECT_TRUE(image && image->identity == identity && image->bytes.size() == out.size());
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(left_, out.size()));
    std::copy_n(image->bytes.begin(), n, out.begin());
    if (spoils) out[0] ^= std::byte{1};
    left_ -= n;
    if (n > 0) arrived(n);
    return n == out.size() ? Status() : Status(Code::kUnavailable, "the source is gone");
  }
  void stop() override {}

  bool spoils = false;

 private:
  std::shared_ptr<ImageStore> store_;
  std::uint64_t left_;
  std::size_t next_ = 0;
};

class ArrivingWeightsTest : public testing::Test {
 protected:
  void write_model(std::string_view config) {
    const Status written =
        write_random_checkpoint(small_config(config), {.dir = folder_.path(), .progress = {}});
    ASSERT_TRUE(written.ok()) << written.message();
  }

  LoadOptions options() {
    LoadOptions out;
    out.model_dir = folder_.path();
    out.quantize = quantize_;
    out.kernels = &table_;
    out.exec = &exec_;
    out.cache = {.folder = cache_dir_, .maker = std::string(table_.id)};
    out.shared_fd = shared_fd_;
    return out;
  }

  // Of a plain load, whose weights store_ has then.
  std::vector<float> plain() {
    store_ = std::make_shared<ImageStore>();
    LoadOptions from = options();
    from.cache = {};
    from.cache.maker = std::string(table_.id);
    from.shared_fd = -1;
    from.store = store_;
    auto loaded = Model::load(from);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    first_ = std::move(loaded).value();
    fingerprint_ = first_->info().fingerprint;
    bytes_ = 0;
    for (std::size_t i = 0;; ++i) {
      const auto image = *store_->image(i, TimePoint::min());
      if (!image) break;
      bytes_ += image->bytes.size();
    }
    return logits_of_a_prompt(*first_, exec_);
  }

  // Of a model whose source ends after so many bytes. Sets report_.
  std::vector<float> arriving(std::uint64_t bytes_max, bool spoils = false) {
    auto source = std::make_shared<StoreSource>(store_, bytes_max);
    source->spoils = spoils;
    LoadOptions from = options();
    from.source = source;
    from.store = given_on_ = std::make_shared<ImageStore>();
    auto outline = Model::outline(from);
    EXPECT_TRUE(outline.ok()) << outline.status().message();
    EXPECT_NE(outline->weights, nullptr);
    EXPECT_EQ(outline->model->info().fingerprint, fingerprint_);
    // Buffers of one's own have padding.
    if (shared_fd_ < 0) {
      EXPECT_EQ(outline->model->info().weight_bytes, first_->info().weight_bytes);
      EXPECT_EQ(outline->model->info().weight_shares, first_->info().weight_shares);
    }
    layers_.clear();
    auto report = outline->weights->load(&exec_, [&](std::uint32_t n) { layers_.push_back(n); });
    status_ = report.status();
    if (!report.ok()) return {};
    report_ = *std::move(report);
    last_ = std::move(outline->model);
    return logits_of_a_prompt(*last_, exec_);
  }

  const kernels::KernelTable& table_ = **kernels::select_kernels("");
  kernels::ExecContext exec_{2};
  base::TempFolder folder_;
  std::string quantize_;
  std::string cache_dir_;
  int shared_fd_ = -1;
  std::shared_ptr<ImageStore> store_;
  std::shared_ptr<ImageStore> given_on_;
  std::unique_ptr<Model> first_;
  std::unique_ptr<Model> last_;
  std::uint64_t fingerprint_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint32_t> layers_;
  LoadReport report_;
  Status status_;
};

TEST_F(ArrivingWeightsTest, EveryFamilyComputesTheSameBits) {
  for (const SmallModel& model : small_models()) {
    SCOPED_TRACE(model.name);
    write_model(model.fields);
    for (const char* quantize : {"", "int8"}) {
      quantize_ = quantize;
      const std::vector<float> expected = plain();
      EXPECT_EQ(arriving(bytes_), expected);
      EXPECT_THAT(report_.warnings, IsEmpty());
      EXPECT_EQ(layers_.size(), first_->info().n_layers + 1);
      EXPECT_TRUE(std::ranges::is_sorted(layers_));
      EXPECT_TRUE(given_on_->is_complete());
      EXPECT_EQ(given_on_->description()->key, store_->description()->key);
    }
  }
}

TEST_F(ArrivingWeightsTest, ASourceThatEndsAnywhereIsFollowedByTheCheckpoint) {
  write_model(R"({"model_type":"llama","tie_word_embeddings":true})");
  quantize_ = "int8";
  const std::vector<float> expected = plain();
  for (std::uint64_t n = 0; n < bytes_; n += bytes_ / 29 + 1) {
    SCOPED_TRACE(n);
    EXPECT_EQ(arriving(n), expected);
    EXPECT_THAT(report_.warnings, ElementsAre(HasSubstr("the source is gone")));
  }
}

TEST_F(ArrivingWeightsTest, TheFileOfPackedWeightsGoesOn) {
  write_model(R"({"model_type":"llama"})");
  base::TempFolder cache;
  quantize_ = "int8";
  const std::vector<float> expected = plain();
  cache_dir_ = cache.path();
  // What arrived is kept, too.
  EXPECT_EQ(arriving(bytes_ / 2), expected);
  EXPECT_GT(report_.weight_cache.bytes_written, 0U);
  EXPECT_EQ(arriving(bytes_ / 2), expected);
  EXPECT_GT(report_.weight_cache.bytes_read, 0U);
  EXPECT_EQ(report_.weight_cache.bytes_written, 0U);
  EXPECT_THAT(report_.warnings, ElementsAre(HasSubstr("the source is gone")));
}

TEST_F(ArrivingWeightsTest, SharedMemoryIsFilled) {
  write_model(R"({"model_type":"llama"})");
  const std::vector<float> expected = plain();
  shared_fd_ = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(arriving(bytes_), expected);
  EXPECT_FALSE(report_.shared.was_filled);
  // Which is nearer than any other process.
  LoadOptions second = options();
  second.source = std::make_shared<StoreSource>(store_, 0);
  auto outline = Model::outline(second);
  ASSERT_TRUE(outline.ok()) << outline.status().message();
  EXPECT_EQ(outline->weights, nullptr);
  EXPECT_TRUE(outline->model->info().shared.was_filled);
  EXPECT_EQ(logits_of_a_prompt(*outline->model, exec_), expected);
  outline->model.reset();
  close(shared_fd_);
}

TEST_F(ArrivingWeightsTest, WithoutASourceAllIsLoadedAtOnce) {
  write_model(R"({"model_type":"llama"})");
  const std::vector<float> expected = plain();
  quantize_ = "int8";  // others
  LoadOptions from = options();
  from.source = std::make_shared<StoreSource>(store_, bytes_);
  auto outline = Model::outline(from);
  ASSERT_TRUE(outline.ok()) << outline.status().message();
  EXPECT_EQ(outline->weights, nullptr);
  EXPECT_THAT(outline->model->info().warnings, Contains(HasSubstr("other weights")));
}

// Same size, same header, one value changed at the end of a tensor.
TEST_F(ArrivingWeightsTest, OtherValuesAreOtherWeights) {
  write_model(R"({"model_type":"llama"})");
  plain();
  const std::string key = store_->description()->key;
  const std::string path = folder_.file("model.safetensors");
  const auto size = std::filesystem::file_size(path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size) - 1);
  file.put('\x11');
  file.close();
  plain();
  EXPECT_NE(store_->description()->key, key);
}

TEST_F(ArrivingWeightsTest, ACopyElsewhereIsTheSame) {
  write_model(R"({"model_type":"llama"})");
  plain();
  const std::string key = store_->description()->key;
  const std::string path = folder_.file("model.safetensors");
  std::filesystem::copy_file(path, path + ".2");
  std::filesystem::rename(path + ".2", path);
  plain();
  EXPECT_EQ(store_->description()->key, key);
}

TEST_F(ArrivingWeightsTest, WhatDiffersFromTheCheckpointEndsTheLoad) {
  write_model(R"({"model_type":"llama"})");
  plain();
  EXPECT_THAT(arriving(100, /*spoils=*/true), IsEmpty());
  EXPECT_EQ(status_.code(), Code::kDataLoss);
  EXPECT_EQ(given_on_->image(1'000, TimePoint::min()).status().code(), Code::kDataLoss);
}

TEST_F(ArrivingWeightsTest, NothingIsLeftWhereTheDiskFailsToo) {
  write_model(R"({"model_type":"llama"})");
  plain();
  auto source = std::make_shared<StoreSource>(store_, bytes_ / 2);
  LoadOptions from = options();
  from.source = source;
  auto outline = Model::outline(from);
  ASSERT_TRUE(outline.ok()) << outline.status().message();
  std::filesystem::resize_file(folder_.file("model.safetensors"), 100);
  std::vector<std::uint32_t> layers;
  const auto report =
      outline->weights->load(nullptr, [&](std::uint32_t n) { layers.push_back(n); });
  EXPECT_EQ(report.status().code(), Code::kDataLoss) << report.status().message();
  EXPECT_LT(layers.size(), first_->info().n_layers + 1);
}

}  // namespace
}  // namespace coxswain::model
