// Session files: what was written is read; no byte may differ, none may be missing, and no number is believed.

#include "library/session_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <coxswain/kv_layout.h>
#include <gtest/gtest.h>

namespace coxswain::library {
namespace {

namespace fs = std::filesystem;

RunnerInfo make_info() {
  RunnerInfo info;
  info.model_id = "a model";
  info.model_fingerprint = 77;
  info.kernel_set_id = "scalar";
  info.dtype = "float32";
  info.vocab_size = 50;
  info.block_tokens = 4;
  info.kv_groups = {{.layers = {0},
                     .kind = KvGroup::Kind::kFull,
                     .bytes_per_block = 32,
                     .dtype = "float32",
                     .n_kv_heads = 1,
                     .k_dim = 1,
                     .v_dim = 1}};
  return info;
}

class SessionFileTest : public ::testing::Test {
 protected:
  SessionFileTest() {
    fs::create_directories(folder_);
    for (TokenId id = 0; id < 14; ++id) snapshot_.ids.push_back(id * 3);
    snapshot_.cache_salt = std::string("a\0salt", 6);
    snapshot_.rope_length = 40;
  }
  ~SessionFileTest() override { fs::remove_all(folder_); }

  std::string path() const { return folder_ / "session"; }

  // Three blocks in pieces of two.
  Status write(const batch::PrefixPieces& pieces,
               const base::FileCalls& calls = base::FileCalls::system()) const {
    COXSWAIN_ASSIGN_OR_RETURN(SessionFileWriter out,
                              SessionFileWriter::create(path(), info_, snapshot_, calls));
    for (std::uint32_t i = 0; i < 2; ++i) COXSWAIN_RETURN_IF_ERROR(out.add_piece(image(2 - i)));
    return out.finish(pieces);
  }
  std::string image(std::uint32_t n_blocks) const {
    const std::vector<std::uint32_t> blocks{n_blocks};
    return std::string(blocks_attachment_bytes(kv_layout_of(info_), blocks),
                       static_cast<char>('0' + n_blocks));
  }
  std::string content() const {
    std::ifstream in(path(), std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  void replace(std::string_view bytes) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }
  Status open() const { return SessionFile::open(path(), info_).status(); }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("session_file_" + std::to_string(::getpid()));
  RunnerInfo info_ = make_info();
  SessionSnapshot snapshot_;
  const batch::PrefixPieces pieces_{.n_blocks = 3, .piece_blocks = 2, .first_blocks = {0}};
};

TEST_F(SessionFileTest, WhatWasWrittenIsRead) {
  ASSERT_TRUE(write(pieces_).ok());
  auto file = SessionFile::open(path(), info_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->snapshot(), snapshot_);
  EXPECT_EQ(file->pieces(), pieces_);
  EXPECT_EQ(file->piece(1).value(), image(1));
  EXPECT_EQ(file->piece(0).value(), image(2));
  EXPECT_EQ(SessionFile::read_ids(path()).value(), snapshot_);
}

// Every byte of every part: magic, version, lengths, numbers, checksums, payloads.
TEST_F(SessionFileTest, NoByteMayDiffer) {
  ASSERT_TRUE(write(pieces_).ok());
  const std::string whole = content();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ (1 << (at % 8)));
    replace(broken);
    const Status status = open();
    ASSERT_FALSE(status.ok()) << "byte " << at;
    ASSERT_NE(status.message().find(path()), std::string::npos) << status.message();
  }
}

TEST_F(SessionFileTest, NoByteMayBeMissingOrMore) {
  ASSERT_TRUE(write(pieces_).ok());
  const std::string whole = content();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    replace(std::string_view(whole).substr(0, n));
    ASSERT_FALSE(open().ok()) << n << " bytes";
  }
  replace(whole + '\0');
  EXPECT_EQ(open().code(), Code::kInvalidArgument);
  EXPECT_EQ(SessionFile::open(path() + "x", info_).status().code(), Code::kNotFound);
}

TEST_F(SessionFileTest, NumbersThatCannotBeAreRefusedByName) {
  const auto refusal = [&](const batch::PrefixPieces& pieces) {
    EXPECT_TRUE(write(pieces).ok());
    const Status status = open();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    return status.message();
  };
  EXPECT_NE(refusal({.n_blocks = 4, .piece_blocks = 2, .first_blocks = {0}})
                .find("blocks: found 4, expected at most 3 for tokens=14"),
            std::string::npos);
  EXPECT_NE(refusal({.n_blocks = 2, .piece_blocks = 2, .first_blocks = {0}})
                .find("found 2 pieces, expected 2 blocks in pieces of 2"),
            std::string::npos);
  refusal({.n_blocks = 2, .piece_blocks = 1, .first_blocks = {0}});
  refusal({.n_blocks = 3, .piece_blocks = 0, .first_blocks = {0}});
  refusal({.n_blocks = 3, .piece_blocks = 0xFFFFFFFFU, .first_blocks = {0}});
  refusal({.n_blocks = 3, .piece_blocks = 2, .first_blocks = {0, 0}});
  refusal({.n_blocks = 3, .piece_blocks = 2, .first_blocks = {1}});
  snapshot_.ids[3] = 50;
  EXPECT_NE(refusal(pieces_).find("found 50, expected one >= 0 and < 50"), std::string::npos);
}

TEST_F(SessionFileTest, BlocksOfAnotherRunnerAreRefusedAndTheIdsAreThere) {
  ASSERT_TRUE(write(pieces_).ok());
  const auto refusal = [&](const std::function<void(RunnerInfo&)>& change) {
    RunnerInfo other = info_;
    change(other);
    const Status status = SessionFile::open(path(), other).status();
    EXPECT_EQ(status.code(), Code::kFailedPrecondition);
    return status.message();
  };
  EXPECT_NE(refusal([](RunnerInfo& i) {
              i.model_fingerprint = 78;
            }).find("model_fingerprint=77, here model_fingerprint=78"),
            std::string::npos);
  EXPECT_NE(refusal([](RunnerInfo& i) {
              i.kernel_set_id = "avx2";
            }).find("kernel_set_id=scalar, here kernel_set_id=avx2"),
            std::string::npos);
  refusal([](RunnerInfo& i) { i.dtype = "bfloat16"; });
  refusal([](RunnerInfo& i) { i.block_tokens = 8; });
  refusal([](RunnerInfo& i) { i.kv_groups[0].dtype = "bfloat16"; });
  EXPECT_EQ(SessionFile::read_ids(path()).value(), snapshot_);
}

TEST_F(SessionFileTest, AFullDiskLeavesTheFormerFile) {
  ASSERT_TRUE(write(pieces_).ok());
  const std::string former = content();
  base::FileCalls full = base::FileCalls::system();
  full.write = [](int fd, const void* bytes, std::size_t n) -> ssize_t {
    static std::size_t n_left = 700;
    if (n > n_left) {
      errno = ENOSPC;
      return -1;
    }
    n_left -= n;
    return ::write(fd, bytes, n);
  };
  snapshot_.ids.pop_back();
  EXPECT_EQ(write(pieces_, full).code(), Code::kResourceExhausted);
  EXPECT_EQ(content(), former);
}

}  // namespace
}  // namespace coxswain::library
