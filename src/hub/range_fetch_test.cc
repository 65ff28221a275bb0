#include "hub/range_fetch.h"

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"

namespace coxswain::hub {
namespace {

// A file of numbered bytes on a server that misbehaves as told; every fetcher of it is one connection.
class RangeServer {
 public:
  std::string file;
  bool knows_ranges = true;
  std::size_t shift = 0;         // of the ranges that it sends
  std::size_t cut_after = 1000;  // bytes of each answer
  int status_at_500 = 206;       // of the range there
  std::uint64_t surplus = 0;     // of the file that its ranges are of
  std::uint64_t last_first = 0;  // that many ranges have to be there before the first one comes

  RangeServer() {
    for (int i = 0; i < 1000; ++i) file += static_cast<char>('a' + i * i % 26);
  }
  FetcherFactory fetchers() {
    return [this] { return std::make_unique<Connection>(*this); };
  }
  std::size_t n_asked() const {
    const base::MutexLock lock(mu_);
    return asked_.size();
  }

 private:
  class Connection final : public Fetcher {
   public:
    explicit Connection(RangeServer& server) : server_(server) {}
    Result<FetchHead> get(const FetchRequest& request, const FetchSink& sink) override {
      return server_.answer(request, sink);
    }

   private:
    RangeServer& server_;
  };

  Result<FetchHead> answer(const FetchRequest& request, const FetchSink& sink) {
    {
      base::MutexLock lock(mu_);
      asked_.insert(request.offset);
      if (request.offset == 0)
        came_.wait(lock, [&]() REQUIRES(mu_) { return n_sent_ >= last_first; });
    }
    if (!knows_ranges) return send({.status = 200}, file, sink);
    if (request.offset == 500 && status_at_500 != 206) return FetchHead{.status = status_at_500};
    const std::size_t begin = request.offset + shift;
    return send({.status = 206, .offset = begin, .total = file.size() + surplus},
                std::string_view(file).substr(begin, request.end - request.offset),
                sink);
  }

  Result<FetchHead> send(const FetchHead& head, std::string_view body, const FetchSink& sink) {
    for (std::size_t at = 0; at < std::min(body.size(), cut_after); at += 7) {
      const Status taken = sink(head, body.substr(at, std::min<std::size_t>(7, cut_after - at)));
      if (!taken.ok()) return taken;
    }
    const base::MutexLock lock(mu_);
    ++n_sent_;
    came_.notify_all();
    if (cut_after < body.size()) return Status(Code::kUnavailable, "cut");
    return head;
  }

  mutable base::Mutex mu_;
  base::CondVar came_;
  std::multiset<std::uint64_t> asked_ GUARDED_BY(mu_);
  std::uint64_t n_sent_ GUARDED_BY(mu_) = 0;
};

class RangeFetchTest : public ::testing::Test {
 protected:
  Status run(std::uint64_t from = 0) {
    got_ = server_.file.substr(0, from);
    return fetch_ranges({.fetchers = server_.fetchers(),
                         .request = {.url = "u", .offset = from, .end = server_.file.size()},
                         .file_bytes = server_.file.size(),
                         .n_connections = 4,
                         .range_bytes = 100,
                         .tries = {.max = 3, .pause = std::chrono::milliseconds(0)},
                         .take = [this](std::string_view bytes) -> Status {
                           if (got_.size() >= refuse_at_) return internal_error("the disk is full");
                           got_ += bytes;
                           return {};
                         },
                         .refusal = [](const FetchHead& head) -> Status {
                           return {Code::kNotFound, std::to_string(head.status)};
                         }});
  }
  void expect_a_beginning() { EXPECT_EQ(got_, server_.file.substr(0, got_.size())); }

  RangeServer server_;
  std::string got_;
  std::size_t refuse_at_ = 10'000;
};

TEST_F(RangeFetchTest, HandsTheFileOnInItsOrder) {
  for (const std::uint64_t from : {0U, 1U, 250U, 999U}) {
    const Status status = run(from);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(got_, server_.file) << from;
  }
}

TEST_F(RangeFetchTest, RangesThatAreThereWaitForTheFirst) {
  server_.last_first = 7;  // all that may be ahead of it: twice four, less itself
  const Status status = run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(got_, server_.file);
}

TEST_F(RangeFetchTest, ARangeThatBreaksOffIsGoneOnWith) {
  server_.cut_after = 40;
  const Status status = run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(got_, server_.file);
  EXPECT_EQ(server_.n_asked(), 30U) << "each of ten ranges in three pieces";
}

TEST_F(RangeFetchTest, ARangeIsTriedSoOften) {
  server_.cut_after = 0;
  EXPECT_EQ(run().code(), Code::kUnavailable);
  expect_a_beginning();
}

TEST_F(RangeFetchTest, AServerWithoutRangesIsTold) {
  server_.knows_ranges = false;
  EXPECT_EQ(run().code(), Code::kUnimplemented);
  EXPECT_EQ(got_, "");
}

TEST_F(RangeFetchTest, AnotherRangeIsNoRange) {
  server_.shift = 1;
  EXPECT_EQ(run().code(), Code::kDataLoss);
  EXPECT_EQ(got_, "");
}

TEST_F(RangeFetchTest, ARangeOfAnotherFileIsNone) {
  server_.surplus = 24;
  const Status status = run();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_EQ(status.message(), "the hub sends a file of 1024 bytes, and listed 1000");
  EXPECT_EQ(got_, "");
}

// Answers one request at a time, the first one once another was refused, and none after it if `is_closed`.
class BusyServer {
 public:
  explicit BusyServer(int status, bool is_closed = false)
      : status_(status), is_closed_(is_closed) {}

  FetcherFactory fetchers() {
    return [this] { return std::make_unique<Connection>(*this); };
  }
  std::size_t n_refused() const {
    const base::MutexLock lock(mu_);
    return n_refused_;
  }

 private:
  class Connection final : public Fetcher {
   public:
    explicit Connection(BusyServer& server) : server_(server) {}
    Result<FetchHead> get(const FetchRequest& request, const FetchSink& sink) override {
      return server_.answer(request, sink);
    }

   private:
    BusyServer& server_;
  };

  Result<FetchHead> answer(const FetchRequest& request, const FetchSink& sink) {
    {
      base::MutexLock lock(mu_);
      if (is_at_it_ || (is_closed_ && n_refused_ > 0)) {
        ++n_refused_;
        refused_.notify_all();
        return FetchHead{.status = status_};
      }
      is_at_it_ = true;
      refused_.wait(lock, [&]() REQUIRES(mu_) { return n_refused_ > 0; });
    }
    const FetchHead head{.status = 206, .offset = request.offset};
    const Status taken = sink(head, std::string(request.end - request.offset, 'x'));
    const base::MutexLock lock(mu_);
    is_at_it_ = false;
    if (!taken.ok()) return taken;
    return head;
  }

  const int status_;
  const bool is_closed_;
  mutable base::Mutex mu_;
  base::CondVar refused_;
  bool is_at_it_ GUARDED_BY(mu_) = false;
  std::size_t n_refused_ GUARDED_BY(mu_) = 0;
};

Status fetch_from(BusyServer& server, std::string& got) {
  return fetch_ranges({.fetchers = server.fetchers(),
                       .request = {.url = "u", .end = 1000},
                       .file_bytes = 1000,
                       .n_connections = 4,
                       .range_bytes = 10,
                       .tries = {.max = 3, .pause = std::chrono::milliseconds(0)},
                       .take = [&](std::string_view bytes) -> Status {
                         got += bytes;
                         return {};
                       },
                       .refusal = [](const FetchHead& head) -> Status {
                         return {Code::kUnavailable, std::to_string(head.status)};
                       }});
}

TEST(BusyHub, IsAskedForOneRangeAtATime) {
  for (const int status : {429, 503}) {
    BusyServer server(status);
    std::string got;
    const Status fetched = fetch_from(server, got);
    ASSERT_TRUE(fetched.ok()) << fetched.message();
    EXPECT_EQ(got, std::string(1000, 'x'));
    EXPECT_LE(server.n_refused(), 3U) << "what was refused came again alone";
  }
}

TEST(BusyHub, IsNotAskedForever) {
  BusyServer server(429, true);
  std::string got;
  const Status fetched = fetch_from(server, got);
  EXPECT_EQ(fetched.code(), Code::kUnavailable);
  EXPECT_EQ(fetched.message(), "429");
  EXPECT_LE(server.n_refused(), 12U) << "three times for each of four ranges";
}

// What a hub that is away is waited for.
std::vector<int> pauses(std::chrono::seconds asked, int n_tries) {
  std::vector<int> out;
  Tries tries{.max = n_tries, .pause = std::chrono::milliseconds(1000)};
  tries.wait = [&](Tries::Pause time) { out.push_back(static_cast<int>(time.count())); };
  const std::uint64_t came = 0;
  const Status status = tries.run(came, [&](Tries::Pause& pause) -> Status {
    pause = asked;
    return {Code::kUnavailable, "busy"};
  });
  EXPECT_EQ(status.code(), Code::kUnavailable);
  return out;
}

TEST(Tries, WaitAtLeastAsLongAsTheHubAsks) {
  EXPECT_EQ(pauses(std::chrono::seconds(0), 4), (std::vector<int>{1000, 2000, 4000}));
  EXPECT_EQ(pauses(std::chrono::seconds(3), 4), (std::vector<int>{3000, 3000, 4000}));
  EXPECT_EQ(pauses(std::chrono::seconds(300), 2), (std::vector<int>{300'000}));
  EXPECT_EQ(pauses(std::chrono::seconds(301), 2), std::vector<int>{}) << "too long to wait for";
}

TEST_F(RangeFetchTest, WhatWasTakenBeforeAFailureIsABeginning) {
  server_.status_at_500 = 404;
  const Status status = run();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.message(), "404");
  EXPECT_LE(got_.size(), 500U);
  expect_a_beginning();
}

TEST_F(RangeFetchTest, WhoCannotTakeMoreEndsIt) {
  refuse_at_ = 300;
  EXPECT_EQ(run().message(), "the disk is full");
  EXPECT_EQ(got_.size(), 300U);
  expect_a_beginning();
}

}  // namespace
}  // namespace coxswain::hub
