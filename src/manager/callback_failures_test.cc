// What becomes of exceptions that a program's callbacks throw.

#include <atomic>
#include <stdexcept>

#include <coxswain/batch_manager.h>

#include "manager/testing/managed.h"
#include "manager/testing/program.h"

namespace coxswain::manager {
namespace {

using testing::joined;
using testing::kPrompt;
using testing::make_request;
using testing::Managed;
using testing::Program;
using testing::Reply;

TEST(BatchManager, AThrowingGetIsAnEmptyOne) {
  std::atomic<int> n_calls{0};
  Managed run({}, [&](Managed& m) {
    m.program.on_get = [&] {
      if (n_calls++ % 2 == 0) throw std::runtime_error("no queue");
    };
  });
  run.program.submit(make_request(1, kPrompt, 3));
  EXPECT_EQ(run.program.wait(1).error(), "");
  const CallbackFailures failures = run.manager->callback_failures();
  EXPECT_GE(failures.count, 1U);
  EXPECT_EQ(failures.last, "get_requests: no queue");
}

TEST(BatchManager, AThrowingSendStopsItsRequest) {
  Managed run({}, [&](Managed& m) {
    m.program.on_send = [](std::uint64_t id, bool) {
      if (id == 1) throw std::runtime_error("the client is gone");
    };
  });
  run.program.submit(make_request(1, kPrompt, 200, true));
  run.program.submit(make_request(2, {2, 3}, 100, true));
  EXPECT_EQ(run.program.wait(2).ids(), run.expected({2, 3}, 100));
  run.manager.reset();
  const Reply reply = run.program.reply(1);
  ASSERT_EQ(reply.responses.size(), 2U);
  EXPECT_EQ(reply.errors[1], "send_response has thrown: the client is gone");
}

TEST(BatchManager, OtherExceptionsOfCallbacksChangeNothing) {
  Program program;
  BatchManagerCallbacks on = program.callbacks();
  on.poll_stop_signals = []() -> std::unordered_set<std::uint64_t> { throw 5; };
  on.return_stats = [](const std::string&) { throw std::runtime_error("the log is full"); };
  Managed run({}, std::move(on));
  program.submit(make_request(1, kPrompt, 10));
  EXPECT_EQ(program.wait(1).ids(), joined(kPrompt, run.expected(kPrompt, 10)));
  EXPECT_GE(run.manager->callback_failures().count, 10U);
}

TEST(BatchManager, ANullRequestIsNoted) {
  Managed run;
  run.program.submit(nullptr);
  run.program.submit(make_request(1, kPrompt, 3));
  EXPECT_EQ(run.program.wait(1).error(), "");
  EXPECT_EQ(run.manager->callback_failures().count, 1U);
}

}  // namespace
}  // namespace coxswain::manager
