#include "rpc/ucx_carrier.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "rpc/kept_attachments.h"

namespace coxswain::rpc {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kId = 5;

// What no test waits for.
TimePoint late() {
  return Clock::now() + std::chrono::minutes(2);
}

Attachment attachment(std::size_t n_bytes) {
  Attachment out{.id = kId, .kind = AttachmentKind::kBlocks};
  for (std::size_t i = 0; i < n_bytes; ++i) out.bytes += static_cast<char>(i * 31 + i / 251);
  return out;
}

std::unique_ptr<UcxCarrier> carrier(KeptAttachments& kept) {
  return start_ucx({.networks = parse_networks("127.0.0.0/8").value(),
                    .redeem = [&kept](std::uint64_t id,
                                      std::string_view ticket) { return kept.redeem(id, ticket); }})
      .value();
}

class UcxCarrierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_ucx()) GTEST_SKIP() << "built without COXSWAIN_UCX";
  }
  static UcxTake of(const UcxCarrier& source, const std::string& ticket, std::size_t n_bytes) {
    return {.address = source.address(), .id = kId, .ticket = ticket, .n_bytes = n_bytes};
  }

  KeptAttachments kept_;
  KeptAttachments none_;
};

TEST_F(UcxCarrierTest, BytesComeAsTheyAre) {
  const auto source = carrier(kept_);
  const auto taker = carrier(none_);
  ASSERT_TRUE(taker->reaches(source->address()));
  for (const std::size_t n_bytes : {0UL, 1UL, 5'000UL, 70'000UL, 20'000'000UL}) {
    const Attachment sent = attachment(n_bytes);
    const auto taken = taker->take(of(*source, kept_.offer(sent), n_bytes), late());
    ASSERT_TRUE(taken.ok()) << taken.status().message();
    EXPECT_TRUE(*taken == sent.bytes) << n_bytes;
  }
}

TEST_F(UcxCarrierTest, BothEndsTakeAtOnce) {
  KeptAttachments others;
  const auto one = carrier(kept_);
  const auto other = carrier(others);
  const auto take_all = [](UcxCarrier& taker, const UcxCarrier& source, KeptAttachments& kept) {
    for (std::uint64_t id = 1; id <= 20; ++id) {
      Attachment sent = attachment(200'000 + id);
      sent.id = id;
      UcxTake what = of(source, kept.offer(sent), sent.bytes.size());
      what.id = id;
      const auto taken = taker.take(what, late());
      EXPECT_TRUE(taken.ok()) << taken.status().message();
      EXPECT_TRUE(taken.ok() && *taken == sent.bytes);
    }
  };
  std::thread there([&] { take_all(*other, *one, kept_); });
  take_all(*one, *other, others);
  there.join();
}

TEST_F(UcxCarrierTest, ATicketIsGoodForOneTakeOfWhatItIsFor) {
  const auto source = carrier(kept_);
  const auto taker = carrier(none_);
  const Attachment sent = attachment(300'000);
  const std::string ticket = kept_.offer(sent);
  std::string guessed = ticket;
  guessed.front() = static_cast<char>(guessed.front() ^ 1);
  const auto refusal = [&](const UcxTake& what) {
    const auto taken = taker->take(what, late());
    EXPECT_EQ(taken.status().code(), Code::kNotFound);
    return taken.status().message();
  };
  EXPECT_THAT(refusal(of(*source, guessed, sent.bytes.size())), HasSubstr("nothing is offered"));
  EXPECT_THAT(refusal(of(*source, "short", sent.bytes.size())), HasSubstr("16 bytes"));
  UcxTake another = of(*source, ticket, sent.bytes.size());
  another.id = kId + 1;
  EXPECT_THAT(refusal(another), HasSubstr("nothing is offered"));
  ASSERT_TRUE(taker->take(of(*source, ticket, sent.bytes.size()), late()).ok());
  EXPECT_THAT(refusal(of(*source, ticket, sent.bytes.size())), HasSubstr("nothing is offered"));
  EXPECT_TRUE(taker->reaches(source->address())) << "a refusal is no failure";
}

TEST_F(UcxCarrierTest, WhatIsLongerOrShorterThanWasSaidIsNotTaken) {
  const auto source = carrier(kept_);
  const auto taker = carrier(none_);
  for (const std::size_t n_bytes : {100UL, 300'000UL}) {
    for (const std::size_t said : {n_bytes - 1, n_bytes + 1}) {
      const auto taken = taker->take(of(*source, kept_.offer(attachment(n_bytes)), said), late());
      EXPECT_THAT(taken.status().message(), HasSubstr("others than was said"));
    }
    UcxTake other_kind = of(*source, kept_.offer(attachment(n_bytes)), n_bytes);
    other_kind.kind = AttachmentKind::kHidden;
    EXPECT_THAT(taker->take(other_kind, late()).status().message(),
                HasSubstr("others than was said"));
  }
}

TEST_F(UcxCarrierTest, ASourceThatDoesNotAnswerIsGivenUpAtTheDeadline) {
  std::promise<void> end;
  const auto source = start_ucx({.networks = parse_networks("127.0.0.0/8").value(),
                                 .redeem =
                                     [&end](std::uint64_t, std::string_view) {
                                       end.get_future().wait();
                                       return nullptr;
                                     }})
                          .value();
  const auto taker = carrier(none_);
  const auto taken = taker->take(of(*source, std::string(16, 't'), 9),
                                 Clock::now() + std::chrono::milliseconds(50));
  EXPECT_EQ(taken.status().code(), Code::kDeadlineExceeded);
  EXPECT_FALSE(taker->reaches(source->address())) << "for a while";
  end.set_value();
}

// A source in a process of its own. REQUIRES: no thread runs yet.
class ForkedSource {
 public:
  using Redeem = std::function<std::shared_ptr<const Attachment>()>;
  explicit ForkedSource(const Redeem& redeem) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      std::signal(SIGSEGV, SIG_DFL);
      const auto source =
          start_ucx({.networks = parse_networks("127.0.0.0/8").value(),
                     .redeem = [&](std::uint64_t, std::string_view) { return redeem(); }});
      const std::string address = source.ok() ? source.value()->address() : "";
      static_cast<void>(::write(pipe[1], address.data(), address.size()));
      ::close(pipe[1]);
      for (;;) ::pause();
    }
    ::close(pipe[1]);
    std::array<char, 64> address{};
    const ssize_t n = ::read(pipe[0], address.data(), address.size());
    ::close(pipe[0]);
    EXPECT_GT(n, 0);
    address_.assign(address.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }
  ~ForkedSource() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ForkedSource(const ForkedSource&) = delete;
  ForkedSource& operator=(const ForkedSource&) = delete;

  UcxTake take(std::size_t n_bytes) const {
    return {.address = address_, .id = kId, .ticket = std::string(16, 't'), .n_bytes = n_bytes};
  }

 private:
  pid_t pid_ = 0;
  std::string address_;
};

TEST_F(UcxCarrierTest, ASourceThatEndsWhenItIsAskedFailsTheTake) {
  const ForkedSource source([]() -> std::shared_ptr<const Attachment> { ::_exit(0); });
  const auto taker = carrier(none_);
  const UcxTake what = source.take(1'000'000);
  EXPECT_EQ(taker->take(what, late()).status().code(), Code::kUnavailable);
  EXPECT_FALSE(taker->reaches(what.address)) << "for a while";
}

TEST_F(UcxCarrierTest, ASourceThatEndsAmidTheBytesFailsTheTake) {
  constexpr std::size_t kBytes = 32 << 20;
  // It cannot read what it has from the middle on: the kernel refuses it, or the process ends.
  const ForkedSource source([] {
    auto out = std::make_shared<Attachment>(attachment(kBytes));
    constexpr std::uintptr_t kPage = 4096;
    char* const middle = out->bytes.data() + kBytes / 2;
    char* const page = middle - reinterpret_cast<std::uintptr_t>(middle) % kPage;
    EXPECT_EQ(::mprotect(page, kBytes / 4, PROT_NONE), 0);
    return out;
  });
  const auto taker = carrier(none_);
  EXPECT_EQ(taker->take(source.take(kBytes), late()).status().code(), Code::kUnavailable);
}

TEST_F(UcxCarrierTest, ATakeMayBeGivenUpAmidTheBytes) {
  const auto source = carrier(kept_);
  const Attachment sent = attachment(8'000'000);
  for (int i = 0; i < 10; ++i) {
    const auto taker = carrier(none_);
    const auto taken = taker->take(of(*source, kept_.offer(sent), sent.bytes.size()),
                                   Clock::now() + std::chrono::milliseconds(i));
    EXPECT_TRUE(taken.ok() ? *taken == sent.bytes
                           : taken.status().code() == Code::kDeadlineExceeded);
    const auto again = taker->take(of(*source, kept_.offer(sent), sent.bytes.size()), late());
    EXPECT_TRUE(again.ok() && *again == sent.bytes) << again.status().message();
  }
}

// A source that is asked for something and does not answer before it is let go.
class HeldSource {
 public:
  const UcxCarrier& carrier() const { return *carrier_; }
  void wait_until_asked() { asked_.get_future().wait(); }
  void let_go() { end_.set_value(); }

 private:
  std::promise<void> asked_;
  std::promise<void> end_;
  const std::unique_ptr<UcxCarrier> carrier_ =
      start_ucx({.networks = parse_networks("127.0.0.0/8").value(),
                 .redeem =
                     [this](std::uint64_t, std::string_view) {
                       asked_.set_value();
                       end_.get_future().wait();
                       return nullptr;
                     }})
          .value();
};

// As where a shard stops: the source is held up, and so may be the library.
TEST_F(UcxCarrierTest, NoTakeIsWaitedForWhereTheyAreToStop) {
  HeldSource source;
  const auto taker = carrier(kept_);
  const UcxTake what = of(source.carrier(), std::string(16, 't'), 9);
  auto taken =
      std::async(std::launch::async, [&] { return taker->take(what, late()).status().code(); });
  source.wait_until_asked();
  taker->stop_takes();
  EXPECT_EQ(taken.get(), Code::kCancelled);
  EXPECT_EQ(taker->take(what, late()).status().code(), Code::kCancelled) << "nor a later one";
  EXPECT_TRUE(taker->reaches(source.carrier().address())) << "that is no failure";
  source.let_go();
  // Others still take from there.
  const Attachment sent = attachment(300'000);
  const auto other = carrier(none_);
  const auto from_there = other->take(of(*taker, kept_.offer(sent), sent.bytes.size()), late());
  EXPECT_TRUE(from_there.ok() && *from_there == sent.bytes) << from_there.status().message();
}

TEST_F(UcxCarrierTest, ATakeFailsWithItsCarrier) {
  HeldSource source;
  auto taker = carrier(none_);
  auto taken = std::async(std::launch::async, [&, &at = *taker] {
    return at.take(of(source.carrier(), std::string(16, 't'), 9), late()).status();
  });
  source.wait_until_asked();
  UcxCarrier* const ending = taker.release();
  std::thread ender([ending] { delete ending; });
  source.let_go();
  EXPECT_FALSE(taken.get().ok());
  ender.join();
}

// What UCX changes in a process that loads it, if it is let.
struct Touched {
  std::array<unsigned char, 16> code = {};  // the beginning of munmap(2)
  std::array<std::uintptr_t, 3> handlers = {};

  static Touched now() {
    Touched out;
    std::memcpy(out.code.data(), reinterpret_cast<const void*>(&::munmap), out.code.size());
    std::size_t i = 0;
    for (const int number : {SIGHUP, SIGSEGV, SIGFPE}) {
      struct sigaction action = {};
      ::sigaction(number, nullptr, &action);
      out.handlers[i++] = reinterpret_cast<std::uintptr_t>(action.sa_sigaction);
    }
    return out;
  }
};
const Touched kUntouched = Touched::now();

TEST_F(UcxCarrierTest, TheProcessStaysAsItIs) {
  const auto here = carrier(none_);
  EXPECT_TRUE(Touched::now().code == kUntouched.code);
  EXPECT_EQ(Touched::now().handlers, kUntouched.handlers);
}

TEST_F(UcxCarrierTest, OnlyListedNetworksAreUsed) {
  const auto here = carrier(none_);
  EXPECT_TRUE(here->address().starts_with("127.0.0.1:"));
  EXPECT_TRUE(here->reaches("127.9.9.9:1"));
  EXPECT_FALSE(here->reaches("10.0.0.1:1"));
  EXPECT_FALSE(here->reaches("localhost:1"));
  EXPECT_FALSE(here->reaches(""));
  const auto nowhere = start_ucx({.networks = parse_networks("224.0.0.1/32").value()});
  EXPECT_EQ(nowhere.status().code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace coxswain::rpc
