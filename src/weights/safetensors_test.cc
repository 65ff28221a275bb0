#include "weights/safetensors.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "weights/safetensors_writer.h"
#include "weights/test_files.h"

namespace coxswain::weights {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kHeader =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("b.bias":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},"m":{"dtype":"BOOL","shape":[],"data_offsets":[22,23]}})";
constexpr std::string_view kData = "0123456789abcdefghijklm";

std::string small_file() {
  return safetensors_bytes(kHeader, kData);
}

TEST(Safetensors, ReadsTensorsByNameAndOffset) {
  const base::TempFolder folder;
  auto file = open_safetensors(folder.write("x.safetensors", small_file()));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 3U);
  const TensorInfo* bias = file->find("b.bias");
  ASSERT_NE(bias, nullptr);
  EXPECT_EQ(bias->type, StoredType::kBf16);
  EXPECT_EQ(bias->shape, std::vector<std::uint64_t>{3});
  EXPECT_EQ(float_type(bias->type), tensor::DType::kBf16);
  EXPECT_EQ(float_type(file->find("m")->type), std::nullopt);
  EXPECT_EQ(file->find("nothing"), nullptr);

  std::string out(4, '\0');
  ASSERT_TRUE(file->read(*bias, 2, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "ijkl");
  EXPECT_EQ(file->read(*bias, 3, std::as_writable_bytes(std::span(out))).code(), Code::kInternal);
}

TEST(Safetensors, RefusesEveryBrokenRuleByName) {
  struct Case {
    std::string header;
    std::string data;
    std::string message;
  };
  const std::array cases{
      Case{R"([])", "", "not a JSON object"},
      Case{R"({"a":1})", "", "tensor \"a\": its entry is not an object"},
      Case{R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "1234", "dtype is missing"},
      Case{R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})",
           "1234",
           "unknown dtype \"F31\""},
      Case{R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234", "not a count"},
      Case{R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "1234", "not a count"},
      Case{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1234", "not a pair"},
      Case{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})",
           "1234",
           "not two ascending counts"},
      Case{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
           "1234",
           "data_offsets end at 8, the file has 4"},
      Case{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
           "1234",
           "needs 8 bytes, data_offsets give 4"},
      Case{R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})",
           "1",
           "no size in whole bytes"},
      Case{R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
           "",
           "no size in whole bytes below 2^64"},
      Case{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}})",
           "1234",
           "unknown key \"extra\""},
      Case{
          R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"I8","shape":[2],"data_offsets":[3,5]}})",
          "12345",
          "tensor \"b\": its data overlaps"},
      Case{
          R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"I8","shape":[1],"data_offsets":[2,3]}})",
          "123",
          "tensor \"b\": there is a hole"},
      Case{R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})", "12", "there is a hole"},
      Case{R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
           "12",
           "1 bytes after the data"},
      Case{
          R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})",
          "12",
          "header"},
      Case{R"({"__metadata__":{"a":1}})", "", "__metadata__"},
      Case{
          R"({"a":{"dtype":"I8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
          "1",
          "more than 16 dimensions"},
      Case{R"({"a")", "", "header"},
  };
  const base::TempFolder folder;
  for (const Case& c : cases) {
    const std::string path = folder.write("x.safetensors", safetensors_bytes(c.header, c.data));
    const auto file = open_safetensors(path);
    ASSERT_FALSE(file.ok()) << c.header;
    EXPECT_EQ(file.status().code(), Code::kDataLoss);
    EXPECT_THAT(file.status().message(), HasSubstr(c.message));
    EXPECT_THAT(file.status().message(), HasSubstr(path));
  }
}

TEST(Safetensors, RefusesHeaderLengthsOutsideTheFileAndTheLimit) {
  const base::TempFolder folder;
  std::string bytes = small_file();
  bytes[7] = '\x7f';
  auto file = open_safetensors(folder.write("x.safetensors", bytes));
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), HasSubstr("above the limit"));

  SafetensorsLimits limits;
  limits.header_bytes_max = kHeader.size() - 1;
  file = open_safetensors(folder.write("x.safetensors", small_file()), limits);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), HasSubstr("above the limit"));

  EXPECT_EQ(open_safetensors(folder.path() + "/none").status().code(), Code::kNotFound);
}

TEST(Safetensors, RefusesWhatIsNoFileAtOnce) {
  const base::TempFolder folder;
  const std::string pipe = folder.path() + "/x.safetensors";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, folder.path()}) {
    const Status status = open_safetensors(path).status();
    EXPECT_EQ(status.code(), Code::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr(path + ": not a regular file"));
  }
}

TEST(Safetensors, RefusesTheFileCutAtEveryByte) {
  const base::TempFolder folder;
  const std::string whole = small_file();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const auto file = open_safetensors(folder.write("x.safetensors", whole.substr(0, n)));
    EXPECT_FALSE(file.ok()) << "cut to " << n << " bytes";
  }
}

// Whatever one byte of the header becomes: refused, or a table that still tiles the data exactly.
TEST(Safetensors, SurvivesEveryChangeOfAHeaderByte) {
  const base::TempFolder folder;
  const std::string whole = small_file();
  std::size_t n_refused = 0;
  for (std::size_t at = 0; at < 8 + kHeader.size(); ++at) {
    for (const int flip : {0x01, 0x02, 0x10, 0x20, 0x80, 0xFF}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      const auto file = open_safetensors(folder.write("x.safetensors", bytes));
      if (!file.ok()) {
        ++n_refused;
        continue;
      }
      std::uint64_t n_bytes = 0;
      for (const TensorInfo& tensor : file->tensors()) {
        std::vector<std::byte> data(tensor.n_bytes());
        EXPECT_TRUE(file->read(tensor, 0, data).ok());
        n_bytes += tensor.n_bytes();
      }
      EXPECT_EQ(n_bytes, kData.size()) << "byte " << at << " ^ " << flip;
    }
  }
  EXPECT_GT(n_refused, kHeader.size());
}

TEST(Safetensors, ReportsAFileThatShrinksAfterOpening) {
  const base::TempFolder folder;
  const std::string path = folder.write("x.safetensors", small_file());
  const auto file = open_safetensors(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path, 8 + kHeader.size() + 10);
  std::array<std::byte, 16> out{};
  const Status status = file->read(*file->find("a"), 0, out);
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("tensor \"a\""));
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const base::TempFolder folder;
  const std::string path = folder.path() + "/w.safetensors";
  const std::array tensors{TensorDeclaration{"x", StoredType::kI8, {2, 3}},
                           TensorDeclaration{"y \"é\"", StoredType::kF32, {1}}};
  {
    auto writer = SafetensorsWriter::create(path, tensors);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->append(std::as_bytes(std::span("abcdefghij", 10))).ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(writer->finish().ok());
  }
  const auto file = open_safetensors(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::string out(4, '\0');
  ASSERT_TRUE(file->read(*file->find("y \"é\""), 0, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "ghij");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(SafetensorsWriter, LeavesNothingWhenUnfinished) {
  const base::TempFolder folder;
  const std::array tensors{TensorDeclaration{"x", StoredType::kI8, {4}}};
  {
    auto writer = SafetensorsWriter::create(folder.path() + "/w.safetensors", tensors);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->append(std::as_bytes(std::span("ab", 2))).ok());
    EXPECT_EQ(writer->finish().code(), Code::kInternal);
    EXPECT_EQ(writer->append(std::as_bytes(std::span("abcdef", 6))).code(), Code::kInternal);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace coxswain::weights
