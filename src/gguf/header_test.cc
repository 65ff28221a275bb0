#include "gguf/header.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "gguf/testing/file_bytes.h"

namespace coxswain::gguf {
namespace {

using testing::bytes_of;
using testing::f32_value;
using testing::f32s_value;
using testing::FileBytes;
using testing::string_value;
using testing::strings_value;
using testing::text_of;
using testing::u32_value;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ4 = 2;

class GgufHeader : public ::testing::Test {
 protected:
  Result<Header> read(const std::string& bytes) {
    temp_.write("a.gguf", bytes);
    return Header::read(temp_.path() + "/a.gguf");
  }
  std::string error(const FileBytes& file) {
    const auto header = read(file.bytes());
    return header.ok() ? "ok" : header.status().message();
  }

  const base::TempFolder temp_;
};

FileBytes small_file() {
  FileBytes out;
  out.key("general.architecture", string_value("llama"))
      .key("llama.block_count", u32_value(2))
      .key("llama.rope.freq_base", f32_value(0.5F))
      .key("tokenizer.ggml.tokens", strings_value({"a", "", "bc"}))
      .key("tokenizer.ggml.scores", f32s_value({-1.0F, 0.25F}))
      .tensor_with("w", {64, 3}, kQ4, std::string(6 * 18, 'x'))
      .tensor_with("norm", {4}, kF32, std::string(16, 'y'));
  return out;
}

TEST_F(GgufHeader, KeysAndTensorsAreAsWritten) {
  for (const std::uint32_t version : {2U, 3U}) {
    FileBytes file = small_file();
    file.version = version;
    const auto header = read(file.bytes());
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->text("general.architecture"), "llama");
    EXPECT_EQ(header->number("llama.block_count"), 2.0);
    EXPECT_EQ(header->number("llama.rope.freq_base"), 0.5);
    const auto tokens = header->texts("tokenizer.ggml.tokens");
    ASSERT_EQ(tokens.size(), 3U);
    EXPECT_EQ(tokens[2], "bc");
    const Value* const scores = header->find("tokenizer.ggml.scores");
    ASSERT_TRUE(scores != nullptr && scores->is_array && scores->is_number());
    EXPECT_EQ(scores->n, 2U);
    EXPECT_EQ(scores->number(1), 0.25);
    EXPECT_EQ(header->keys().front(), "general.architecture");

    ASSERT_EQ(header->tensors().size(), 2U);
    const TensorInfo& w = header->tensors()[0];
    EXPECT_EQ(w.name, "w");
    EXPECT_EQ(w.type->name, "Q4_0");
    EXPECT_EQ(w.shape, (std::vector<std::uint64_t>{3, 64}));
    EXPECT_EQ(w.n_bytes, 108U);
    EXPECT_EQ(file.bytes().substr(w.begin, w.n_bytes), std::string(108, 'x'));
    const TensorInfo& norm = header->tensors()[1];
    EXPECT_EQ(file.bytes().substr(norm.begin, norm.n_bytes), std::string(16, 'y'));
  }
}

TEST_F(GgufHeader, EveryTypeOfNumberIsRead) {
  FileBytes file;
  const auto add = [&](const std::string& name, std::uint32_t type, const std::string& bytes) {
    file.key(name, bytes_of(type) + bytes);
  };
  add("u8", 0, bytes_of<std::uint8_t>(200));
  add("i8", 1, bytes_of<std::int8_t>(-3));
  add("u16", 2, bytes_of<std::uint16_t>(65535));
  add("i16", 3, bytes_of<std::int16_t>(-300));
  add("i32", 5, bytes_of<std::int32_t>(-70000));
  add("bool", 7, bytes_of<std::uint8_t>(1));
  add("u64", 10, bytes_of<std::uint64_t>(1ULL << 40));
  add("i64", 11, bytes_of<std::int64_t>(-(1LL << 40)));
  add("f64", 12, bytes_of(1e300));
  const auto header = read(file.bytes());
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->number("u8"), 200.0);
  EXPECT_EQ(header->number("i8"), -3.0);
  EXPECT_EQ(header->number("u16"), 65535.0);
  EXPECT_EQ(header->number("i16"), -300.0);
  EXPECT_EQ(header->number("i32"), -70000.0);
  EXPECT_EQ(header->number("bool"), 1.0);
  EXPECT_EQ(header->number("u64"), 1099511627776.0);
  EXPECT_EQ(header->number("i64"), -1099511627776.0);
  EXPECT_EQ(header->number("f64"), 1e300);
  EXPECT_EQ(header->number("missing"), std::nullopt);
  EXPECT_EQ(header->text("u8"), "") << "of another type";
}

TEST_F(GgufHeader, AFileThatEndsTooSoonIsAnError) {
  const std::string whole = small_file().bytes();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const auto header = read(whole.substr(0, n));
    ASSERT_FALSE(header.ok()) << n << " bytes";
    EXPECT_EQ(header.status().code(), Code::kDataLoss);
  }
  EXPECT_EQ(Header::read(temp_.path() + "/none.gguf").status().code(), Code::kNotFound);
}

TEST_F(GgufHeader, LyingNumbersAreRefusedByName) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  const std::string strings = bytes_of<std::uint32_t>(9) + bytes_of<std::uint32_t>(8);
  EXPECT_NE(error(FileBytes().key("k", strings + bytes_of(kHuge))).find("cut off at key k"),
            std::string::npos);
  EXPECT_NE(error(FileBytes().key("k", bytes_of<std::uint32_t>(99))).find("key k has the unknown"),
            std::string::npos);
  const std::string arrays = bytes_of<std::uint32_t>(9) + bytes_of<std::uint32_t>(9);
  EXPECT_NE(error(FileBytes().key("k", arrays + bytes_of<std::uint64_t>(1))).find("unknown type 9"),
            std::string::npos);
  EXPECT_NE(
      error(FileBytes().key("k", u32_value(1)).key("k", u32_value(1))).find("k is there twice"),
      std::string::npos);
  FileBytes file = small_file();
  file.n_keys = kHuge;
  EXPECT_NE(error(file).find("keys, at most 65536"), std::string::npos);
  file = small_file();
  file.n_tensors = kHuge;
  EXPECT_NE(error(file).find("tensors, at most"), std::string::npos);
  file = small_file();
  file.version = 4;
  EXPECT_NE(error(file).find("version 4"), std::string::npos);
  EXPECT_NE(error(small_file().key("general.alignment", u32_value(48))).find("alignment"),
            std::string::npos);
}

TEST_F(GgufHeader, TensorsThatCannotBeAreRefusedByName) {
  const auto with =
      [&](const std::vector<std::uint64_t>& dimensions, std::uint32_t type, std::uint64_t offset) {
        FileBytes file = small_file();
        file.tensor("odd", dimensions, type, offset).data.resize(192);
        return error(file);
      };
  EXPECT_EQ(with({4}, kF32, 160), "ok") << "behind the others";
  EXPECT_NE(with({4}, kF32, 1 << 20).find("\"odd\" ends behind the end"), std::string::npos);
  EXPECT_NE(with({4}, kF32, ~std::uint64_t{31}).find("\"odd\" ends behind"), std::string::npos);
  EXPECT_NE(with({4}, kF32, 4).find("no multiple of the alignment"), std::string::npos);
  EXPECT_NE(with({4}, kF32, 32).find("\"w\" and \"odd\" overlap"), std::string::npos);
  EXPECT_NE(with({31}, kQ4, 160).find("rows of 31 values"), std::string::npos);
  EXPECT_NE(with({0}, kF32, 160).find("rows of 0 values"), std::string::npos);
  EXPECT_NE(with({1ULL << 40, 1ULL << 40}, kF32, 0).find("more than 2^64 values"),
            std::string::npos);
  EXPECT_NE(with({1ULL << 40, 1ULL << 23}, kF32, 0).find("more than 2^64 bytes"),
            std::string::npos);
  EXPECT_NE(with({1, 1, 1, 1, 1}, kF32, 0).find("5 dimensions"), std::string::npos);
  EXPECT_NE(with({4}, 4, 160).find("unknown type 4"), std::string::npos) << "removed from ggml";
  FileBytes twice = small_file();
  twice.tensor_with("w", {4}, kF32, std::string(16, 'z'));
  EXPECT_NE(error(twice).find("\"w\" is there twice"), std::string::npos);
}

// More than is read at first.
TEST_F(GgufHeader, LongHeadersAreReadWhole) {
  const std::vector<std::string> tokens(1 << 20, "twelve bytes");
  FileBytes file;
  file.key("tokenizer.ggml.tokens", strings_value(tokens)).key("last", u32_value(7));
  const auto header = read(file.bytes());
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->texts("tokenizer.ggml.tokens").size(), tokens.size());
  EXPECT_TRUE(std::ranges::equal(header->texts("tokenizer.ggml.tokens"), tokens));
  EXPECT_EQ(header->number("last"), 7.0);
}

}  // namespace
}  // namespace coxswain::gguf
