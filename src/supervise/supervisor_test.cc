#include "supervise/supervisor.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <signal.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/testing/temp_folder.h"

namespace coxswain::supervise {
namespace {

using std::chrono::milliseconds;

// Services are shell scripts; a service is ready when it has printed "ready".
class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() { Supervisor::block_signals(); }

  ServiceSpec service(const std::string& name, const std::string& script) {
    ServiceSpec spec;
    spec.child = {.name = name,
                  .argv = {"/bin/sh", "-c", script},
                  .environment = {},
                  .environment_removed = {}};
    spec.ready = [this, name] { return ready_lines_[name] > starts_[name] - 1; };
    spec.before_start = [this, name] { ++starts_[name]; };
    return spec;
  }

  SupervisorEvents events() {
    SupervisorEvents events;
    events.on_line = [this](const std::string& name, Stream stream, std::string_view line) {
      log_.push_back(name + (stream == Stream::kStdout ? ": " : "! ") + std::string(line));
      if (line == "ready") ++ready_lines_[name];
    };
    events.on_ready = [this](const std::string& name, milliseconds took) {
      EXPECT_GE(took.count(), 0);
      log_.push_back(name + " is ready");
      if (on_ready_) on_ready_(name);
    };
    events.on_exit =
        [this](const std::string& name, const Exit& exit, std::optional<milliseconds> next) {
          log_.push_back(name + " ended: " + exit.describe() + (next ? ", again" : ""));
        };
    events.on_start_error = [this](const std::string& name, const Status& status) {
      log_.push_back(name + " error " + status.message());
    };
    events.on_stop = [this](std::string_view signal) {
      log_.push_back("stop " + std::string(signal));
    };
    return events;
  }

  // events() that also hand every line to `on_line`.
  SupervisorEvents events_with(const std::function<void(std::string_view)>& on_line) {
    SupervisorEvents out = events();
    out.on_line = [noted = std::move(out.on_line), on_line](
                      const std::string& name, Stream stream, std::string_view line) {
      noted(name, stream, line);
      on_line(line);
    };
    return out;
  }

  std::size_t position(const std::string& line) const {
    return static_cast<std::size_t>(std::ranges::find(log_, line) - log_.begin());
  }

  // Of a shard that prints it first.
  pid_t shard_pid() const { return std::stoi(log_.at(0).substr(log_.at(0).find(' ') + 1)); }

  // As `ps` shows it: T is held by a signal.
  static char state_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    return text.at(text.rfind(')') + 2);
  }

  base::TempFolder folder_;
  std::map<std::string, int> ready_lines_;
  std::map<std::string, int> starts_;
  std::vector<std::string> log_;
  std::function<void(const std::string&)> on_ready_;
};

constexpr char kServe[] = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done";

TEST_F(SupervisorTest, StartsInOrderAndStopsInReverse) {
  Supervisor supervisor(
      {.grace = milliseconds(20000), .reserve = milliseconds(5000), .restarts = {}}, events());
  supervisor.add(service("shard", kServe), 0);
  supervisor.add(service("router", kServe), 1);
  on_ready_ = [&](const std::string& name) {
    if (name == "router") kill(getpid(), SIGTERM);
  };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("shard is ready"), position("router: ready"));
  EXPECT_LT(position("stop SIGTERM"), position("router: bye"));
  EXPECT_LT(position("router: bye"), position("shard: bye"));
  EXPECT_LT(position("shard: bye"), log_.size());
}

// ready() sees a file that the service wrote after its lines, which nobody has read yet.
TEST_F(SupervisorTest, WhatWasSaidBeforeReadyIsToldBefore) {
  Supervisor supervisor(
      {.grace = milliseconds(20000), .reserve = milliseconds(5000), .restarts = {}}, events());
  const std::string sign = folder_.path() + "/sign";
  ServiceSpec spec =
      service("router", "echo connected; echo warned >&2; : > " + sign + "; exec sleep 1000");
  spec.ready = [sign] {
    while (access(sign.c_str(), F_OK) != 0) usleep(1000);
    return true;
  };
  supervisor.add(std::move(spec), 0);
  on_ready_ = [&](const std::string&) { supervisor.request_stop(); };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("router: connected"), position("router is ready"));
  EXPECT_LT(position("router! warned"), position("router is ready"));
}

TEST_F(SupervisorTest, ARestartedServiceServesAgain) {
  Supervisor supervisor(
      {.grace = milliseconds(20000), .reserve = milliseconds(5000), .restarts = {}}, events());
  supervisor.add(service("shard", "echo $$; echo ready; exec sleep 1000"), 0);
  int times_ready = 0;
  on_ready_ = [&](const std::string&) {
    if (++times_ready == 1) {
      ASSERT_EQ(kill(shard_pid(), SIGKILL), 0);
    } else {
      supervisor.request_stop();
    }
  };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_EQ(times_ready, 2);
  EXPECT_LT(position("shard ended: signal 9 (Killed), again"), log_.size());
}

TEST_F(SupervisorTest, AServiceThatNeverGetsReadyFailsTheStart) {
  Supervisor supervisor(
      {.grace = milliseconds(20000), .reserve = milliseconds(5000), .restarts = {}}, events());
  supervisor.add(service("shard", "echo cause >&2; exit 3"), 0);
  supervisor.add(service("router", kServe), 1);
  const RunResult result = supervisor.run();
  EXPECT_EQ(result.outcome, Outcome::kStartFailed);
  EXPECT_EQ(result.service, "shard");
  EXPECT_EQ(result.exit.code, 3);
  EXPECT_EQ(starts_["router"], 0);
  EXPECT_LT(position("shard! cause"), log_.size());
}

TEST_F(SupervisorTest, GivesUpOnAServiceThatDiesTooOften) {
  ServiceSpec spec = service("late", "echo ready; sleep 0.1; exit 9");
  Supervisor supervisor({.grace = milliseconds(20000),
                         .reserve = milliseconds(5000),
                         .restarts = {.deaths_max = 2,
                                      .window = std::chrono::seconds(60),
                                      .delay_max = std::chrono::seconds(1)}},
                        events());
  supervisor.add(std::move(spec), 0);
  const RunResult result = supervisor.run();
  EXPECT_EQ(result.outcome, Outcome::kGaveUp);
  EXPECT_EQ(result.exit.code, 9);
  EXPECT_EQ(starts_["late"], 2);
}

TEST_F(SupervisorTest, AServiceThatIgnoresTheSignalIsKilledWithinTheGrace) {
  Supervisor supervisor({.grace = milliseconds(300), .reserve = milliseconds(100), .restarts = {}},
                        events());
  supervisor.add(service("shard", "trap '' TERM; echo ready; while :; do sleep 0.01; done"), 0);
  on_ready_ = [&](const std::string&) { kill(getpid(), SIGINT); };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("stop SIGINT"), log_.size());
}

TEST_F(SupervisorTest, AShortGraceIsShared) {
  // The reserve of those that stop last is longer than all of the grace; the first still get most of it.
  Supervisor supervisor(
      {.grace = milliseconds(20000), .reserve = milliseconds(25000), .restarts = {}}, events());
  supervisor.add(service("shard", kServe), 0);
  supervisor.add(service("router",
                         "trap 'sleep 0.2; echo drained; exit 0' TERM; echo ready; while :; do "
                         "sleep 0.01; done"),
                 1);
  on_ready_ = [&](const std::string& name) {
    if (name == "router") kill(getpid(), SIGTERM);
  };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("router: drained"), log_.size());
}

TEST_F(SupervisorTest, EachFurtherSignalHalvesTheGrace) {
  Supervisor supervisor(
      {.grace = std::chrono::hours(1), .reserve = milliseconds(5000), .restarts = {}},
      events_with([](std::string_view line) {
        if (line == "tick") kill(getpid(), SIGINT);
      }));
  supervisor.add(service("shard",
                         "trap '' TERM; echo ready; for i in $(seq 1000); do echo tick; sleep "
                         "0.01; done; echo was never killed"),
                 0);
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("stop SIGINT"), log_.size());
  EXPECT_EQ(position("shard: was never killed"), log_.size());
}

TEST_F(SupervisorTest, AHangUpIsToldAndStopsNothing) {
  Supervisor* running = nullptr;
  SupervisorEvents noting = events();
  noting.on_hangup = [&] {
    log_.push_back("hang-up");
    running->request_stop();
  };
  Supervisor supervisor(
      {.grace = milliseconds(20000), .reserve = milliseconds(5000), .restarts = {}}, noting);
  running = &supervisor;
  supervisor.add(service("shard", kServe), 0);
  on_ready_ = [](const std::string&) { kill(getpid(), SIGHUP); };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("hang-up"), position("shard: bye"));
  EXPECT_EQ(position("stop SIGHUP"), log_.size());
}

TEST_F(SupervisorTest, AHangUpIsPassedOnToWhomItConcerns) {
  Supervisor* running = nullptr;
  SupervisorEvents noting = events();
  const auto on_line = noting.on_line;
  noting.on_line = [&](const std::string& name, Stream stream, std::string_view line) {
    on_line(name, stream, line);
    if (line == "hung up") running->request_stop();
  };
  Supervisor supervisor(
      {.grace = milliseconds(20000), .reserve = milliseconds(5000), .restarts = {}}, noting);
  running = &supervisor;
  supervisor.add(service("shard", kServe), 0);
  ServiceSpec router = service("router",
                               "trap 'echo hung up' HUP; trap 'echo bye; exit 0' TERM; echo ready; "
                               "while :; do sleep 0.01; done");
  router.takes_hangup = true;
  supervisor.add(std::move(router), 1);
  on_ready_ = [](const std::string& name) {
    if (name == "router") kill(getpid(), SIGHUP);
  };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("router: hung up"), position("shard: bye"));
  EXPECT_LT(position("shard: bye"), log_.size());
}

TEST_F(SupervisorTest, AHangUpStopsWhereItIsToStop) {
  Supervisor supervisor({.grace = milliseconds(20000),
                         .reserve = milliseconds(5000),
                         .hangup_stops = true,
                         .restarts = {}},
                        events());
  supervisor.add(service("shard", kServe), 0);
  on_ready_ = [](const std::string&) { kill(getpid(), SIGHUP); };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("stop SIGHUP"), position("shard: bye"));
  EXPECT_LT(position("shard: bye"), log_.size());
}

// What the launcher lets go of at the end is gone before a service hears of it, also before one that has no process.
TEST_F(SupervisorTest, BeforeAServiceIsToldToStop) {
  Supervisor supervisor(
      {.grace = milliseconds(20000), .reserve = milliseconds(5000), .restarts = {}}, events());
  for (const int group : {0, 1}) {
    ServiceSpec spec = service(group == 0 ? "shard" : "router", kServe);
    spec.before_stop = [this, name = spec.child.name] { log_.push_back("before " + name); };
    supervisor.add(std::move(spec), group);
  }
  on_ready_ = [&](const std::string& name) {
    if (name == "router") supervisor.request_stop();
  };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("before router"), position("router: bye"));
  EXPECT_LT(position("router: bye"), position("before shard"));
  EXPECT_LT(position("before shard"), position("shard: bye"));
  EXPECT_EQ(std::ranges::count(log_, "before router"), 1);

  log_.clear();
  Supervisor failing({.grace = milliseconds(20000), .reserve = milliseconds(5000), .restarts = {}},
                     events());
  ServiceSpec waiting = service("router", kServe);
  waiting.before_stop = [this] { log_.push_back("before router"); };
  failing.add(service("shard", "exit 1"), 0);
  failing.add(std::move(waiting), 1);
  EXPECT_EQ(failing.run().outcome, Outcome::kStartFailed);
  EXPECT_EQ(std::ranges::count(log_, "before router"), 1);
}

TEST_F(SupervisorTest, AServiceThatTakesLongIsReported) {
  int n_waiting = 0;
  SupervisorEvents noting = events();
  noting.on_start = [&](const std::string& name) { log_.push_back("start " + name); };
  noting.on_waiting = [&](const std::string& name) {
    log_.push_back("waiting for " + name);
    if (++n_waiting == 2) std::ofstream(folder_.file("go")) << "go";
  };
  Supervisor supervisor({.grace = milliseconds(20000),
                         .reserve = milliseconds(5000),
                         .waiting_interval = milliseconds(1),
                         .restarts = {}},
                        noting);
  supervisor.add(
      service("shard", "while [ ! -e " + folder_.file("go") + " ]; do sleep 0.01; done; " + kServe),
      0);
  on_ready_ = [&](const std::string&) { supervisor.request_stop(); };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_EQ(position("start shard"), 0U);
  EXPECT_LT(position("waiting for shard"), position("shard is ready"));
}

TEST_F(SupervisorTest, EndsAreSeenAlsoWhereTheSignalWasIgnored) {
  signal(SIGCHLD, SIG_IGN);  // as some programs leave it to those that they start
  Supervisor::block_signals();
  Supervisor supervisor({}, events());
  supervisor.add(service("shard", "exit 3"), 0);
  EXPECT_EQ(supervisor.run().exit.code, 3);
}

// Its output stays closed while it runs; waiting for it must still be waiting.
TEST_F(SupervisorTest, AServiceThatClosesItsOutputIsWaitedFor) {
  const base::TempFolder folder;
  Supervisor supervisor({}, events());
  ServiceSpec spec = service(
      "shard", "exec >/dev/null 2>&1; sleep 0.2; : > " + folder.file("ready") + "; sleep 1000");
  std::uint64_t n_looks = 0;
  spec.ready = [&] {
    ++n_looks;
    return access(folder.file("ready").c_str(), F_OK) == 0;
  };
  supervisor.add(std::move(spec), 0);
  on_ready_ = [&](const std::string&) { supervisor.request_stop(); };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(n_looks, 2000U);  // 50 in a second
}

TEST_F(SupervisorTest, AProgramThatIsMissingForAMomentIsTriedAgain) {
  const base::TempFolder folder;
  const std::string path = folder.file("program");
  const auto install = [&] {
    std::ofstream(path) << "#!/bin/sh\nrm -f \"$0\"\necho $$\necho ready\nexec sleep 1000\n";
    ASSERT_EQ(chmod(path.c_str(), S_IRWXU), 0);
  };
  install();
  SupervisorEvents noting = events();
  noting.on_start_error = [&](const std::string& name, const Status& status) {
    log_.push_back(name + " missing");
    EXPECT_EQ(status.code(), Code::kNotFound);
    --starts_[name];  // it will not print that it is ready
    install();
  };
  Supervisor supervisor({}, noting);
  ServiceSpec spec = service("shard", "");
  spec.child.argv = {path};  // it removes itself, so that the next start finds nothing
  supervisor.add(std::move(spec), 0);
  on_ready_ = [&](const std::string&) {
    if (ready_lines_["shard"] == 2) return supervisor.request_stop();
    ASSERT_EQ(kill(shard_pid(), SIGKILL), 0);
  };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("shard missing"), log_.size());
}

TEST_F(SupervisorTest, AServiceThatStandsStillIsReplaced) {
  SupervisorEvents noting = events();
  noting.on_held = [this](const std::string& name, pid_t) { log_.push_back(name + " held"); };
  Supervisor supervisor({.held_max = milliseconds(10)}, noting);
  supervisor.add(service("shard", "echo ready; kill -STOP $$; sleep 1000"), 0);
  int times_ready = 0;
  on_ready_ = [&](const std::string&) {
    if (++times_ready == 2) supervisor.request_stop();
  };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("shard held"), position("shard ended: signal 9 (Killed), again"));
  EXPECT_LT(position("shard ended: signal 9 (Killed), again"), log_.size());
}

TEST_F(SupervisorTest, AServiceThatIsHeldStillHearsTheEnd) {
  Supervisor supervisor({.grace = std::chrono::hours(1)}, events());
  ServiceSpec spec = service("shard",
                             "trap 'echo bye; exit 0' TERM; echo $$; kill -STOP $$; while :; do "
                             "sleep 0.01; done");
  spec.ready = [this] { return !log_.empty() && state_of(shard_pid()) == 'T'; };
  supervisor.add(std::move(spec), 0);
  on_ready_ = [&](const std::string&) { supervisor.request_stop(); };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("shard: bye"), log_.size());
}

TEST_F(SupervisorTest, AServiceThatIsWantedStartsAndOneThatIsNotEnds) {
  SupervisorEvents noting = events();
  Supervisor* all = nullptr;
  noting.on_unwanted = [&](const std::string& name, bool failed) {
    log_.push_back(name + (failed ? " failed" : " is gone"));
    if (starts_["second"] < 2) {
      all->want("second", true);
    } else {
      all->request_stop();
    }
  };
  Supervisor supervisor({.restarts = {.deaths_max = 1}}, noting);
  all = &supervisor;
  supervisor.add(service("first", kServe), 0);
  ServiceSpec second = service("second", kServe);
  second.waits_to_be_wanted = true;
  supervisor.add(std::move(second), 0);
  supervisor.add(service("router", kServe), 1);
  on_ready_ = [&](const std::string& name) {
    if (name == "router") all->want("second", true);
    if (name == "second") all->want("second", false);
  };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_EQ(starts_["second"], 2);
  EXPECT_LT(position("router is ready"), position("second: ready"));
  EXPECT_LT(position("second: bye"), position("second is gone"));
  EXPECT_LT(position("second is gone"), log_.size());
  EXPECT_EQ(starts_["first"], 1);
}

TEST_F(SupervisorTest, AServiceThatIsWantedAndFailsIsNoReasonToEnd) {
  SupervisorEvents noting = events();
  Supervisor* all = nullptr;
  noting.on_unwanted = [&](const std::string& name, bool failed) {
    EXPECT_TRUE(failed);
    log_.push_back(name + " failed");
    all->request_stop();
  };
  Supervisor supervisor({}, noting);
  all = &supervisor;
  supervisor.add(service("first", kServe), 0);
  ServiceSpec second = service("second", "exit 3");
  second.waits_to_be_wanted = true;
  supervisor.add(std::move(second), 0);
  on_ready_ = [&](const std::string&) { all->want("second", true); };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("second ended: exit status 3"), position("second failed"));
  EXPECT_LT(position("second failed"), position("first: bye"));
  EXPECT_LT(position("first: bye"), log_.size());
}

TEST_F(SupervisorTest, OneThatDoesNotEndWhenItIsNotWantedIsKilled) {
  SupervisorEvents noting = events();
  Supervisor* all = nullptr;
  noting.on_unwanted = [&](const std::string& name, bool) {
    log_.push_back(name + " is gone");
    all->request_stop();
  };
  Supervisor supervisor({.unwanted_max = milliseconds(10)}, noting);
  all = &supervisor;
  supervisor.add(service("deaf", "trap '' TERM; echo ready; while :; do sleep 0.01; done"), 0);
  on_ready_ = [&](const std::string& name) { all->want(name, false); };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  EXPECT_LT(position("deaf is gone"), log_.size());
}

TEST_F(SupervisorTest, WhatIsWatchedIsRead) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  Supervisor supervisor({}, events());
  supervisor.add(service("shard", kServe), 0);
  supervisor.watch(ends[0], [&] {
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'x');
    supervisor.request_stop();
  });
  on_ready_ = [&](const std::string&) { EXPECT_EQ(write(ends[1], "x", 1), 1); };
  EXPECT_EQ(supervisor.run().outcome, Outcome::kStopped);
  for (const int fd : ends) close(fd);
}

TEST_F(SupervisorTest, AMissingProgramFailsTheStart) {
  Supervisor supervisor({}, events());
  ServiceSpec spec = service("shard", "");
  spec.child.argv = {"/nonexistent/server"};
  supervisor.add(std::move(spec), 0);
  const RunResult result = supervisor.run();
  EXPECT_EQ(result.outcome, Outcome::kStartFailed);
  EXPECT_EQ(result.status.code(), Code::kNotFound);
}

}  // namespace
}  // namespace coxswain::supervise
