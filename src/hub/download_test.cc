#include "hub/download.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "hub/digest.h"

namespace coxswain::hub {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, 'c');

std::string digest_of(const std::string& bytes, std::size_t digits) {
  Digest digest(std::string(digits, '0'), bytes.size());
  digest.add(bytes);
  return digest.hex();
}

// A hub of one model that misbehaves as told.
class FakeHub final : public Fetcher {
 public:
  std::map<std::string, std::string> files{{"config.json", "{}"},
                                           {"model.safetensors", std::string(1000, 'w')}};
  std::size_t piece_bytes = 64;
  std::size_t cut_after = 1 << 30;  // bytes of each answer
  bool knows_ranges = true;
  int status = 200;
  std::string list_digest{};  // of the weights, in place of the true one
  std::string surplus{};      // behind each file
  std::uint64_t total = 0;    // that ranges tell; 0: nothing
  std::vector<FetchRequest> asked{};

  Result<FetchHead> get(const FetchRequest& request, const FetchSink& sink) override {
    const base::MutexLock lock(mu_);
    asked.push_back(request);
    FetchHead head{.status = status};
    if (status != 200) return head;
    const bool is_list = request.url.find("/api/models/") != std::string::npos;
    std::string body =
        is_list ? list() : files.at(request.url.substr(request.url.rfind('/') + 1)) + surplus;
    if ((request.offset > 0 || request.end > 0) && knows_ranges) {
      head = {.status = 206, .offset = request.offset};
      if (total > 0) head.total = total;
      if (request.end > 0) body.resize(request.end);
      body.erase(0, request.offset);
    }
    const std::size_t end = is_list ? body.size() : std::min(body.size(), cut_after);
    for (std::size_t at = 0; at < end; at += piece_bytes) {
      const Status got =
          sink(head, std::string_view(body).substr(at, std::min(piece_bytes, end - at)));
      if (!got.ok()) return got;
    }
    if (end < body.size()) return Status(Code::kUnavailable, "cut");
    return head;
  }

 private:
  base::Mutex mu_;  // several connections come at once

  std::string list() const {
    std::string out = R"({"sha":")" + kCommit + R"(","siblings":[)";
    const char* comma = "";
    for (const auto& [name, bytes] : files) {
      const bool is_large = name.ends_with(".safetensors");
      std::string sum = digest_of(bytes, is_large ? 64 : 40);
      if (is_large && !list_digest.empty()) sum = list_digest;
      out += comma + (R"({"rfilename":")" + name) + R"(","size":)" + std::to_string(bytes.size());
      out += is_large ? R"(,"lfs":{"sha256":")" + sum + R"(","size":)" +
                            std::to_string(bytes.size()) + "}}"
                      : R"(,"blobId":")" + sum + "\"}";
      comma = ",";
    }
    return out + "]}";
  }
};

class Connection final : public Fetcher {
 public:
  explicit Connection(FakeHub& hub) : hub_(hub) {}
  Result<FetchHead> get(const FetchRequest& request, const FetchSink& sink) override {
    return hub_.get(request, sink);
  }

 private:
  FakeHub& hub_;
};

class DownloadTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hub-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    cache_ = name;
    wanted_ = {.cache = name, .id = "org/name", .tries = {.pause = std::chrono::milliseconds(0)}};
  }
  void TearDown() override { fs::remove_all(cache_); }

  static std::string bytes_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void expect_whole() {
    const fs::path entry = cache_ / "models--org--name";
    EXPECT_EQ(bytes_of(entry / "refs/main"), kCommit);
    for (const auto& [name, bytes] : hub_.files) {
      const fs::path link = entry / "snapshots" / kCommit / name;
      EXPECT_EQ(bytes_of(link), bytes);
      EXPECT_TRUE(fs::read_symlink(link).string().starts_with("../../blobs/"));
    }
    for (const auto& blob : fs::directory_iterator(entry / "blobs")) {
      EXPECT_NE(blob.path().extension(), ".incomplete");
    }
  }
  Code code() { return download_model(fetchers_, wanted_).status().code(); }

  fs::path cache_;
  FakeHub hub_;
  FetcherFactory fetchers_ = [this] { return std::make_unique<Connection>(hub_); };
  Wanted wanted_;
};

TEST_F(DownloadTest, ADigestIsAsGitAndSha256sumSay) {
  // printf abc | git hash-object --stdin; printf abc | sha256sum
  EXPECT_EQ(digest_of("abc", 40), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  EXPECT_EQ(digest_of("abc", 64),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(DownloadTest, BringsAModelOnce) {
  const auto folder = download_model(fetchers_, wanted_);
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  EXPECT_EQ(*folder, (cache_ / "models--org--name/snapshots" / kCommit).string());
  expect_whole();
  hub_.asked.clear();
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(hub_.asked.size(), 1u);  // the list
}

TEST_F(DownloadTest, GoesOnWhereATransferBrokeOff) {
  hub_.cut_after = 100;
  std::uint64_t last = 0;
  wanted_.tell = [&](const Progress& progress) { last = progress.model_bytes; };
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(hub_.asked.back().offset, 900u);
  EXPECT_EQ(last, 1002u);
  expect_whole();
}

TEST_F(DownloadTest, TheNextRunGoesOnToo) {
  hub_.cut_after = 100;
  wanted_.tries.max = 1;
  hub_.cut_after = 0;
  EXPECT_EQ(code(), Code::kUnavailable);
  hub_.cut_after = 1 << 30;
  const fs::path blobs = cache_ / "models--org--name/blobs";
  const std::string sum = digest_of(hub_.files["model.safetensors"], 64);
  std::ofstream(blobs / (sum + ".incomplete")) << std::string(300, 'w');
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(hub_.asked.back().offset, 300u);
  expect_whole();
}

TEST_F(DownloadTest, AServerWithoutRangesBeginsAnew) {
  const fs::path blobs = cache_ / "models--org--name/blobs";
  fs::create_directories(blobs);
  const std::string sum = digest_of(hub_.files["model.safetensors"], 64);
  std::ofstream(blobs / (sum + ".incomplete")) << std::string(300, 'x');
  hub_.knows_ranges = false;
  EXPECT_EQ(code(), Code::kOk);
  expect_whole();
}

TEST_F(DownloadTest, ALargeFileComesInRanges) {
  std::string& weights = hub_.files["model.safetensors"];
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<char>('a' + i * i % 26);
  wanted_.range_bytes = 100;
  hub_.cut_after = 60;
  std::uint64_t last = 0;
  wanted_.tell = [&](const Progress& progress) {
    EXPECT_GE(progress.model_bytes, last);
    last = progress.model_bytes;
  };
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(last, 1002U);
  EXPECT_EQ(std::ranges::count_if(hub_.asked, [](const auto& r) { return r.end > 0; }), 20);
  expect_whole();
}

TEST_F(DownloadTest, RangesThatFailLeaveABeginning) {
  wanted_.range_bytes = 100;
  wanted_.tries.max = 1;
  hub_.cut_after = 99;
  EXPECT_EQ(code(), Code::kUnavailable);
  const std::string sum = digest_of(hub_.files["model.safetensors"], 64);
  const fs::path part = cache_ / "models--org--name/blobs" / (sum + ".incomplete");
  EXPECT_EQ(fs::file_size(part), 0U);
  std::ofstream(part) << std::string(250, 'w');
  hub_.cut_after = 1 << 30;
  hub_.asked.clear();
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_TRUE(std::ranges::all_of(hub_.asked, [](const auto& r) {
    return r.end == 0 || r.offset >= 250;
  })) << "what is here is not asked for again";
  expect_whole();
}

TEST_F(DownloadTest, AServerWithoutRangesSendsLargeFilesWhole) {
  wanted_.range_bytes = 100;
  hub_.knows_ranges = false;
  EXPECT_EQ(code(), Code::kOk);
  EXPECT_EQ(hub_.asked.back().end, 0U);
  expect_whole();
}

TEST_F(DownloadTest, WrongBytesAreThrownAway) {
  hub_.list_digest = std::string(64, 'a');
  EXPECT_EQ(code(), Code::kDataLoss);
  const fs::path entry = cache_ / "models--org--name";
  EXPECT_FALSE(fs::exists(entry / "refs/main"));
  EXPECT_FALSE(fs::exists(entry / "blobs" / (hub_.list_digest + ".incomplete")));
  hub_.list_digest.clear();
  EXPECT_EQ(code(), Code::kOk);
  expect_whole();
}

TEST_F(DownloadTest, MoreBytesThanListedAreRefused) {
  hub_.surplus = "more";
  EXPECT_EQ(code(), Code::kDataLoss);
}

TEST_F(DownloadTest, ARestOfAnotherFileIsRefused) {
  const fs::path blobs = cache_ / "models--org--name/blobs";
  fs::create_directories(blobs);
  const fs::path part = blobs / (digest_of(hub_.files["model.safetensors"], 64) + ".incomplete");
  std::ofstream(part) << std::string(300, 'w');
  hub_.total = 999;
  const Status status = download_model(fetchers_, wanted_).status();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("a file of 999 bytes, and listed 1000"), std::string::npos);
  EXPECT_EQ(fs::file_size(part), 300U);
  hub_.total = 1000;
  EXPECT_EQ(code(), Code::kOk);
  expect_whole();
}

TEST_F(DownloadTest, ARefusalSaysWhatToDo) {
  wanted_.token = "secret";
  hub_.status = 403;
  const Status status = download_model(fetchers_, wanted_).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("accept its licence at https://huggingface.co/org/name"),
            std::string::npos);
  EXPECT_EQ(status.message().find("secret"), std::string::npos);
  hub_.status = 404;
  EXPECT_EQ(code(), Code::kNotFound);
  hub_.asked.clear();
  hub_.status = 503;
  EXPECT_EQ(code(), Code::kUnavailable);
  EXPECT_EQ(hub_.asked.size(), 5u);
}

TEST_F(DownloadTest, ADiskThatIsTooSmallIsSaidFirst) {
  // A list that says more than any disk has.
  class Huge final : public Fetcher {
    Result<FetchHead> get(const FetchRequest&, const FetchSink& sink) override {
      const FetchHead head{.status = 200};
      const Status got =
          sink(head,
               R"({"sha":")" + kCommit +
                   R"(","siblings":[{"rfilename":"m.safetensors","lfs":{"sha256":")" +
                   std::string(64, 'a') + R"(","size":17592186044416}}]})");
      if (!got.ok()) return got;
      return head;
    }
  };
  const Status status = download_model([] { return std::make_unique<Huge>(); }, wanted_).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("17592186044416 are needed"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::hub
