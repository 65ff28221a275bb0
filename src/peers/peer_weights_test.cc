// Packed weights on their way from shards to others: what is sent, and what a receiver does when a source fails.

#include "peers/peer_weights.h"

#include <future>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <proto/engine_v1.grpc.pb.h>

#include "base/mutex.h"
#include "base/testing/temp_folder.h"
#include "peers/weights_service.h"
#include "rpc/convert.h"
#include "weights/image_store.h"

namespace coxswain::peers {
namespace {

namespace pb = engine::v1;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using weights::ImageStore;

constexpr std::size_t kPiece = weights::ImageFile::kPieceBytes;
constexpr const char* kKey = "maker 1\nquantize int8\n";

using Image = std::vector<std::byte>;

std::vector<Image> random_images() {
  std::mt19937 random(3);
  std::vector<Image> out;
  for (const std::size_t n :
       {kPiece * 3 + 5, std::size_t{100}, kPiece, kPiece * 2 - 1, kPiece * 5}) {
    Image& image = out.emplace_back(n);
    for (std::byte& byte : image) byte = static_cast<std::byte>(random());
  }
  return out;
}

std::shared_ptr<ImageStore> store_of(const std::vector<Image>& images) {
  auto out = std::make_shared<ImageStore>();
  out->describe({.key = kKey, .fingerprint = 11});
  for (std::size_t i = 0; i < images.size(); ++i) {
    out->announce(i, images[i]);
    out->arrived(i, images[i].size());
  }
  out->complete();
  return out;
}

// A shard that serves a store and nothing else, or spoils what it sends.
class Shard final : public pb::Engine::Service {
 public:
  using Spoil = std::function<bool(pb::WeightsPart& part)>;  // false: the call ends

  Shard(const std::string& path, const std::shared_ptr<const ImageStore>& store, Spoil spoil = {})
      : path_(path), service_(store, 0), store_(store), spoil_(std::move(spoil)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Shard() override { stop(); }

  void stop() { server_->Shutdown(std::chrono::system_clock::now()); }
  const std::string& path() const { return path_; }
  int calls() const { return calls_; }
  void hang() { hangs_ = true; }  // in the place of ending a call

  grpc::Status Weights(grpc::ServerContext* context,
                       const pb::WeightsRequest* request,
                       grpc::ServerWriter<pb::WeightsPart>* writer) override {
    ++calls_;
    if (spoil_) return spoil(*context, *request, *writer);
    const Status status = service_.send(*context, *request, *writer);
    pb::WeightsPart part;
    rpc::to_proto(status, *part.mutable_status());
    if (!status.ok()) writer->Write(part);
    return grpc::Status::OK;
  }

 private:
  grpc::Status spoil(grpc::ServerContext& context,
                     const pb::WeightsRequest& request,
                     grpc::ServerWriter<pb::WeightsPart>& writer) {
    pb::WeightsPart part;
    part.set_fingerprint(11);
    writer.Write(part);
    std::size_t piece = request.first_piece();
    for (std::size_t section = request.first_section();; ++section, piece = 0) {
      const auto image = *store_->image(section, TimePoint::max());
      if (!image) return grpc::Status::OK;
      for (; piece < weights::piece_count(image->bytes.size()); ++piece) {
        if ((section + piece) % std::max(request.lanes(), 1U) != request.lane()) continue;
        const auto bytes = *store_->piece(section, piece, TimePoint::max());
        part.Clear();
        part.set_section(static_cast<std::uint32_t>(section));
        part.set_piece(static_cast<std::uint32_t>(piece));
        part.set_identity(image->identity);
        part.set_section_bytes(image->bytes.size());
        part.set_hash(store_->hash(section, piece));
        part.set_part(bytes.data(), bytes.size());
        if (!spoil_(part)) {
          while (hangs_ && !context.IsCancelled()) std::this_thread::yield();
          return grpc::Status::OK;
        }
        writer.Write(part);
      }
    }
  }

  const std::string path_;
  WeightsService service_;
  std::shared_ptr<const ImageStore> store_;
  Spoil spoil_;
  std::atomic<int> calls_{0};
  std::atomic<bool> hangs_{false};
  std::unique_ptr<grpc::Server> server_;
};

class PeerWeightsTest : public ::testing::Test {
 protected:
  // The library itself ends with its last user, which takes seconds; once is enough.
  static void SetUpTestSuite() { grpc_init(); }

  PeerWeightsOptions options(std::vector<std::string> addresses) {
    PeerWeightsOptions out;
    out.addresses = std::move(addresses);
    out.on_event = [this](const std::string& line) { events_.push_back(line); };
    return out;
  }

  // All images, as far as they come.
  std::vector<Image> take(PeerWeights& peers) {
    std::vector<Image> out;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      Image image(images_[i].size());
      std::size_t seen = 0;
      status_ = peers.read(i, image, [&](std::size_t n) {
        EXPECT_GT(n, seen);
        seen = n;
      });
      if (!status_.ok()) return out;
      EXPECT_EQ(seen, image.size());
      out.push_back(std::move(image));
    }
    return out;
  }
  std::vector<Image> take_from(std::vector<std::string> addresses) {
    PeerWeights peers(options(std::move(addresses)));
    const auto opened = peers.open(kKey);
    status_ = opened.status();
    if (!opened.ok()) return {};
    EXPECT_EQ(*opened, 11U);
    return take(peers);
  }

  base::TempFolder folder_;
  const std::vector<Image> images_ = random_images();
  std::shared_ptr<ImageStore> store_ = store_of(images_);
  std::vector<std::string> events_;
  Status status_;
};

TEST_F(PeerWeightsTest, OneSourceSendsAll) {
  const Shard shard(folder_.file("a"), store_);
  EXPECT_TRUE(take_from({"unix://" + shard.path()}) == images_);
  EXPECT_THAT(events_, ElementsAre("weights come from unix://" + shard.path()));
}

TEST_F(PeerWeightsTest, SeveralSourcesSendDisjointPieces) {
  base::Mutex mu;
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> sent;
  const auto count = [&](pb::WeightsPart& part) {
    const base::MutexLock lock(mu);
    ++sent[{part.section(), part.piece()}];
    return true;
  };
  const Shard a(folder_.file("a"), store_, count);
  const Shard b(folder_.file("b"), store_, count);
  const Shard c(folder_.file("c"), store_, count);
  EXPECT_TRUE(take_from({a.path(), b.path(), c.path()}) == images_);
  EXPECT_EQ(sent.size(), 13U);
  for (const auto& [piece, n] : sent) EXPECT_EQ(n, 1) << piece.first << " " << piece.second;
}

TEST_F(PeerWeightsTest, OtherWeightsAreRefusedByName) {
  const Shard shard(folder_.file("a"), store_);
  PeerWeights peers(options({shard.path()}));
  const auto opened = peers.open("maker 1\nquantize int4\n");
  EXPECT_EQ(opened.status().code(), Code::kUnavailable);
  EXPECT_THAT(opened.status().message(),
              HasSubstr("the weights here are others: `quantize int8`. Wanted: `quantize int4`"));
}

TEST_F(PeerWeightsTest, NobodyIsThere) {
  EXPECT_THAT(take_from({folder_.file("a"), folder_.file("b")}), testing::IsEmpty());
  EXPECT_EQ(status_.code(), Code::kUnavailable);
  EXPECT_THAT(status_.message(), HasSubstr(folder_.file("a")));
  EXPECT_THAT(status_.message(), HasSubstr(folder_.file("b")));
}

TEST_F(PeerWeightsTest, AShardWithoutWeightsIsLeftForTheNext) {
  const Shard a(folder_.file("a"), nullptr);
  const Shard b(folder_.file("b"), store_);
  EXPECT_TRUE(take_from({a.path(), b.path()}) == images_);
}

// At every piece in turn.
TEST_F(PeerWeightsTest, ASourceThatEndsIsLeftForTheNext) {
  for (int n_good = 0; n_good < 13; ++n_good) {
    SCOPED_TRACE(n_good);
    std::atomic<int> left{n_good};
    const Shard a(folder_.file("a"), store_, [&](pb::WeightsPart&) { return left-- > 0; });
    const Shard b(folder_.file("b"), store_);
    EXPECT_TRUE(take_from({a.path(), b.path()}) == images_);
  }
}

TEST_F(PeerWeightsTest, ASourceThatEndsIsAskedAgainAtThePieceWhereItStopped) {
  std::atomic<int> n_sent{0};
  std::atomic<bool> ended{false};
  const Shard a(folder_.file("a"), store_, [&](pb::WeightsPart&) {
    if (n_sent == 6 && !ended.exchange(true)) return false;
    ++n_sent;
    return true;
  });
  EXPECT_TRUE(take_from({a.path()}) == images_);
  EXPECT_EQ(a.calls(), 2);
  EXPECT_EQ(n_sent, 13);
}

TEST_F(PeerWeightsTest, RetriesHaveALimit) {
  std::atomic<int> n{0};
  const Shard a(folder_.file("a"), store_, [&](pb::WeightsPart&) { return ++n % 2 == 1; });
  EXPECT_LT(take_from({a.path()}).size(), images_.size());
  EXPECT_EQ(status_.code(), Code::kUnavailable);
  EXPECT_EQ(a.calls(), 3);
}

TEST_F(PeerWeightsTest, DamagedBytesAreNotTakenNorAskedForAgain) {
  const Shard a(folder_.file("a"), store_, [](pb::WeightsPart& part) {
    if (part.section() == 3) part.mutable_part()->back() ^= 1;
    return true;
  });
  const Shard b(folder_.file("b"), store_);
  EXPECT_TRUE(take_from({a.path(), b.path()}) == images_);
  EXPECT_EQ(a.calls(), 1);
  EXPECT_THAT(events_, testing::Contains(HasSubstr("do not fit their checksum")));
}

TEST_F(PeerWeightsTest, AnotherPieceOrFormIsNotTaken) {
  for (int what = 0; what < 3; ++what) {
    const Shard a(folder_.file("a"), store_, [what](pb::WeightsPart& part) {
      if (part.section() != 2) return true;
      if (what == 0) part.set_piece(9);
      if (what == 1) part.set_identity(77);
      if (what == 2) part.set_section_bytes(1);
      return true;
    });
    EXPECT_EQ(take_from({a.path()}).size(), 2U);
    EXPECT_EQ(status_.code(), Code::kUnavailable);
  }
}

TEST_F(PeerWeightsTest, ASourceThatSaysNothingIsLeft) {
  std::atomic<int> left{4};
  Shard a(folder_.file("a"), store_, [&](pb::WeightsPart&) { return left-- > 0; });
  a.hang();
  const Shard b(folder_.file("b"), store_);
  PeerWeightsOptions impatient = options({a.path(), b.path()});
  impatient.piece_time_max = std::chrono::milliseconds(200);
  PeerWeights peers(impatient);
  ASSERT_TRUE(peers.open(kKey).ok());
  EXPECT_TRUE(take(peers) == images_);
  EXPECT_THAT(events_, testing::Contains(HasSubstr("nothing came for 200 ms")));
}

// The one in the middle has nothing yet when the last one asks it.
TEST_F(PeerWeightsTest, AShardThatStillLoadsSendsWhatItHas) {
  const Shard first(folder_.file("a"), store_);
  std::vector<Image> held;
  held.reserve(images_.size());
  for (const Image& image : images_) held.emplace_back(image.size());
  const auto middle_store = std::make_shared<ImageStore>();
  middle_store->describe({.key = kKey, .fingerprint = 11});
  for (std::size_t i = 0; i < held.size(); ++i) middle_store->announce(i, held[i]);
  const Shard middle(folder_.file("b"), middle_store);

  PeerWeights from_middle(options({middle.path()}));
  ASSERT_TRUE(from_middle.open(kKey).ok());
  Image last(images_[0].size());
  std::promise<void> first_piece;
  auto taken = std::async(std::launch::async, [&] {
    return from_middle
        .read(0,
              last,
              [&](std::size_t n) {
                if (n == kPiece) first_piece.set_value();
              })
        .ok();
  });
  PeerWeightsOptions quiet;
  quiet.addresses = {first.path()};
  PeerWeights from_first(quiet);
  ASSERT_TRUE(from_first.open(kKey).ok());
  for (std::size_t i = 0; i < held.size(); ++i) {
    ASSERT_TRUE(from_first
                    .read(i,
                          held[i],
                          [&](std::size_t n) {
                            middle_store->arrived(i, n);
                            // The next piece comes once the last of the chain has this one.
                            if (i == 0 && n == kPiece) first_piece.get_future().wait();
                          })
                    .ok());
  }
  middle_store->complete();
  EXPECT_TRUE(taken.get());
  EXPECT_TRUE(last == images_[0]);
  EXPECT_TRUE(held == images_);
}

TEST_F(PeerWeightsTest, AWaitingShardSaysSoUntilItsLoadFails) {
  const auto empty = std::make_shared<ImageStore>();
  empty->describe({.key = kKey, .fingerprint = 11});
  const Shard shard(folder_.file("a"), empty);
  PeerWeightsOptions impatient = options({shard.path()});
  impatient.piece_time_max = std::chrono::milliseconds(1'500);
  PeerWeights peers(impatient);
  ASSERT_TRUE(peers.open(kKey).ok());
  auto taken = std::async(std::launch::async, [&] { return take(peers); });
  EXPECT_EQ(taken.wait_for(std::chrono::seconds(3)), std::future_status::timeout);
  empty->fail({Code::kDataLoss, "the disk is gone"});
  EXPECT_THAT(taken.get(), testing::IsEmpty());
  EXPECT_THAT(events_, testing::Contains(HasSubstr("the disk is gone")));
}

TEST_F(PeerWeightsTest, AStoppedReceiverDoesNotWait) {
  const auto empty = std::make_shared<ImageStore>();
  empty->describe({.key = kKey, .fingerprint = 11});
  const Shard shard(folder_.file("a"), empty);
  PeerWeights peers(options({shard.path()}));
  ASSERT_TRUE(peers.open(kKey).ok());
  auto taken = std::async(std::launch::async, [&] { return take(peers); });
  peers.stop();
  EXPECT_THAT(taken.get(), testing::IsEmpty());
  EXPECT_EQ(status_.code(), Code::kUnavailable);
}

TEST(RateLimit, BytesHaveTheirTimeOneAfterTheOther) {
  RateLimit none(0);
  const TimePoint at_once = none.take(1'000'000'000);
  EXPECT_LE(at_once, Clock::now());
  RateLimit limit(1'000);
  const TimePoint begin = Clock::now();
  const TimePoint first = limit.take(500);
  EXPECT_GE(first - begin, std::chrono::milliseconds(500));
  EXPECT_EQ(limit.take(2'000) - first, std::chrono::seconds(2));
}

}  // namespace
}  // namespace coxswain::peers
