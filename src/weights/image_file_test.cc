#include "weights/image_file.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/testing/temp_folder.h"

namespace coxswain::weights {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> pattern(std::size_t n, std::uint32_t seed) {
  std::vector<std::byte> out(n);
  for (std::byte& byte : out) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<std::byte>(seed >> 24);
  }
  return out;
}

class ImageFileTest : public testing::Test {
 protected:
  ImageFileTest() {
    std::vector<StoredImage> images;
    for (std::size_t i = 0; i < bytes_.size(); ++i) images.push_back({10 + i, bytes_[i]});
    const Status written = ImageFile::write(path_, kKey, 77, images);
    EXPECT_TRUE(written.ok()) << written.message();
    std::ifstream in(path_, std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(in), {});
    EXPECT_EQ(file_.size(), ImageFile::bytes_for(kKey, images));
  }

  // The code of open(), or of the first piece that cannot be read.
  Code read(std::string_view content, std::string_view key = kKey) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
    auto file = ImageFile::open(path_, key);
    if (!file.ok()) {
      EXPECT_THAT(file.status().message(), HasSubstr(path_));
      return file.status().code();
    }
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      std::vector<std::byte> got(bytes_[i].size());
      if (!file->has(i, 10 + i, got.size())) return Code::kNotFound;
      for (std::size_t at = 0; at < got.size(); at += ImageFile::kPieceBytes) {
        const Status status = file->read_piece(
            i,
            at / ImageFile::kPieceBytes,
            std::span(got).subspan(at, std::min(ImageFile::kPieceBytes, got.size() - at)));
        if (!status.ok()) return status.code();
      }
      EXPECT_EQ(got, bytes_[i]);
    }
    return Code::kOk;
  }

  static constexpr std::string_view kKey = "maker x\nfile 1 2 3";

  base::TempFolder folder_;
  const std::string path_ = folder_.path() + "/images";
  const std::vector<std::vector<std::byte>> bytes_{
      pattern(100, 1), pattern((std::size_t{2} << 20) + 5, 2), pattern(std::size_t{1} << 20, 3)};
  std::string file_;
};

TEST_F(ImageFileTest, ComesBackAsItWas) {
  EXPECT_EQ(read(file_), Code::kOk);
  const auto file = ImageFile::open(path_, kKey);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->fingerprint(), 77U);
  EXPECT_FALSE(file->has(0, 11, 100));
  EXPECT_FALSE(file->has(0, 10, 101));
  EXPECT_FALSE(file->has(3, 13, 100));
}

TEST_F(ImageFileTest, IsForItsOwnerAlone) {
  struct stat about {};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
}

TEST_F(ImageFileTest, AnotherKeyIsNotItsOwn) {
  EXPECT_EQ(read(file_, "maker y\nfile 1 2 3"), Code::kInvalidArgument);
  EXPECT_EQ(ImageFile::open(folder_.path() + "/none", kKey).status().code(), Code::kNotFound);
}

// Every byte of the header, some of the images.
TEST_F(ImageFileTest, EveryWrongByteIsFound) {
  std::size_t n_images = 0;
  for (const auto& image : bytes_) n_images += image.size();
  const std::size_t head = file_.size() - n_images;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < head; ++i) places.push_back(i);
  for (std::size_t i = head; i < file_.size(); i += 400'009) places.push_back(i);
  places.push_back(file_.size() - 1);
  for (const std::size_t at : places) {
    std::string damaged = file_;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_EQ(read(damaged), Code::kDataLoss) << at;
  }
}

TEST_F(ImageFileTest, EveryOtherLengthIsFound) {
  for (const std::size_t n : {std::size_t{0},
                              std::size_t{7},
                              std::size_t{23},
                              std::size_t{60},
                              std::size_t{150},
                              file_.size() - 1})
    EXPECT_EQ(read(file_.substr(0, n)), Code::kDataLoss) << n;
  EXPECT_EQ(read(file_ + "x"), Code::kDataLoss);
}

// Sizes that no file has: nothing is allocated for them.
TEST_F(ImageFileTest, LyingHeadersTakeNoMemory) {
  for (const std::size_t at : {std::size_t{16}, std::size_t{20}, 24 + kKey.size() + 8}) {
    std::string lying = file_;
    const std::uint64_t huge = ~std::uint64_t{0} >> 1;
    std::memcpy(lying.data() + at, &huge, at < 24 ? 4 : 8);
    EXPECT_EQ(read(lying), Code::kDataLoss) << at;
  }
}

}  // namespace
}  // namespace coxswain::weights
