#include "telemetry/log.h"

#include <algorithm>
#include <fcntl.h>
#include <limits>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "telemetry/log_text.h"

namespace coxswain::telemetry {
namespace {

using std::chrono::hours;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// A logger whose lines can be read back.
class LogTest : public ::testing::Test {
 protected:
  LogTest() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0); }
  ~LogTest() override {
    close(ends_[0]);
    if (ends_[1] >= 0) close(ends_[1]);
  }
  LogOptions options(bool json) const {
    return {.level = Level::kInfo,
            .json = json,
            .colour = false,
            .target = "router",
            .file_descriptor = ends_[1]};
  }
  std::string written() const {
    std::string out(1 << 16, '\0');
    const ssize_t n = read(ends_[0], out.data(), out.size());
    out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return out;
  }

  int ends_[2] = {-1, -1};
};

TEST_F(LogTest, TextLine) {
  Logger log(options(false));
  log.info("ready",
           {{"port", std::uint64_t{3000}},
            {"ratio", 0.5},
            {"delta", std::int64_t{-2}},
            {"ok", true},
            {"model", "tiny"},
            {"name", "two words"}});
  EXPECT_THAT(written(),
              MatchesRegex("....-..-..T..:..:..\\.......Z  INFO router: ready port=3000 ratio=0.5 "
                           "delta=-2 ok=true model=tiny name=\"two words\"\n"));
  log.error("bad");
  EXPECT_THAT(written(), EndsWith("Z ERROR router: bad\n"));
}

TEST_F(LogTest, JsonLine) {
  Logger log(options(true));
  log.warn("say \"hi\"\n",
           {{"n", std::uint64_t{1}},
            {"text", "a\\b\x01\x7f\xff"},
            {"nothing", std::numeric_limits<double>::quiet_NaN()},
            {"off", false}});
  EXPECT_THAT(
      written(),
      EndsWith("\"level\":\"WARN\",\"target\":\"router\",\"message\":\"say \\\"hi\\\"\\n\",\"n\":1,"
               "\"text\":\"a\\\\b\\u0001\\u007f\xEF\xBF\xBD\",\"nothing\":null,\"off\":false}\n"));
}

TEST_F(LogTest, LevelsBelowAreNotWritten) {
  Logger log(options(false));
  log.debug("hidden");
  EXPECT_EQ(written(), "");
  EXPECT_FALSE(log.enabled(Level::kDebug));
  EXPECT_TRUE(log.enabled(Level::kInfo));
}

TEST_F(LogTest, TheLevelMayChange) {
  Logger log(options(false));
  log.set_level(Level::kError);
  log.info("nobody");
  log.warn_limited("key", hours(1), "nobody");
  log.set_level(Level::kDebug);
  log.debug("somebody");
  EXPECT_THAT(written(), MatchesRegex("[^\n]* DEBUG router: somebody\n"));
}

TEST_F(LogTest, OneEventIsOneLineAndBounded) {
  Logger log(options(false));
  const std::string text(10'000, 'x');
  log.info("a\nb\x1b[31m", {{"client", text}});
  const std::string line = written();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(line.begin(), line.end(), 'x'), 256);
}

TEST_F(LogTest, LimitedWarnings) {
  Logger log(options(false));
  log.warn_limited("noise", hours(1), "first");
  log.warn_limited("noise", hours(1), "second");
  log.warn_limited("noise", hours(1), "third");
  log.warn_limited("other", hours(1), "other");
  const std::string lines = written();
  EXPECT_THAT(lines, HasSubstr("first\n"));
  EXPECT_THAT(lines, HasSubstr("other\n"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  log.warn_limited("noise", std::chrono::milliseconds(0), "fourth");
  EXPECT_THAT(written(), HasSubstr("fourth left_out=2\n"));
  log.warn_limited("noise", std::chrono::milliseconds(0), "fifth");
  EXPECT_THAT(written(), EndsWith("fifth\n"));
}

TEST_F(LogTest, KeysOfLimitedWarningsAreBounded) {
  Logger log(options(false));
  for (int i = 0; i < 5000; ++i) {
    log.warn_limited("key " + std::to_string(i), hours(1), "x");
    if (i % 100 == 0) written();
  }
  written();
  log.warn_limited("key 4999", hours(1), "x");
  EXPECT_EQ(written(), "");
  log.warn_limited("key 0", hours(1), "forgotten, so written again");
  EXPECT_NE(written(), "");
}

// A terminal that is held, or a program that does not read on, must not hold up whoever logs.
TEST_F(LogTest, AReaderThatStandsStillLosesLinesAndHoldsUpNobody) {
  fcntl(ends_[1], F_SETFL, 0);  // a write to a full pipe would block for ever
  Logger log(options(false));
  const std::string text(1000, 'x');
  while (log.dropped_lines() < 100) log.info(text);
  std::size_t n_lines = 0;
  for (std::string part = written(); !part.empty(); part = written()) {
    n_lines += static_cast<std::size_t>(std::count(part.begin(), part.end(), '\n'));
  }
  EXPECT_GT(n_lines, 10U);
  log.info("it reads again");
  EXPECT_THAT(written(), EndsWith("it reads again\n"));
  EXPECT_EQ(log.dropped_lines(), 100U);
}

TEST_F(LogTest, ALongLineIsWhole) {
  Logger log(options(false));
  log.copy_line(std::string(20'000, 'y'));
  EXPECT_EQ(written(), std::string(20'000, 'y') + "\n");
}

TEST_F(LogTest, JsonIsAValueAndNoText) {
  const std::string long_object = "{\"a\":\"" + std::string(5'000, 'x') + "\"}";
  Logger(options(true)).info("ready", {{"shard", JsonText{long_object}}});
  EXPECT_THAT(written(), EndsWith(",\"message\":\"ready\",\"shard\":" + long_object + "}\n"));
}

TEST_F(LogTest, OffWritesNothing) {
  LogOptions off = options(false);
  off.level = Level::kOff;
  Logger log(off);
  log.error("lost");
  log.copy_line("kept");
  EXPECT_EQ(written(), "kept\n");
}

TEST_F(LogTest, AClosedOutputDropsLines) {
  Logger log(options(false));
  close(std::exchange(ends_[1], -1));
  log.info("lost");
  EXPECT_EQ(log.dropped_lines(), 1U);
}

TEST_F(LogTest, ThreadsDoNotMixLines) {
  Logger log(options(false));
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < 50; ++i) log.info("0123456789");
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(written());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, EndsWith(" INFO router: 0123456789"));
  }
  EXPECT_EQ(count, 200);
}

TEST(LogText, ReplacesWhatIsNoUtf8) {
  const std::string r = "\xEF\xBF\xBD";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"\xC3\xA9", "\xC3\xA9"},
      {"\xE2\x82\xAC", "\xE2\x82\xAC"},
      {"\xC0\x80", r + r},                  // overlong
      {"\xED\xA0\x80", r + r + r},          // surrogate
      {"\xF4\x90\x80\x80", r + r + r + r},  // above U+10FFFF
      {"\xE2\x82", r + r},                  // cut
      {"a\xFF"
       "b",
       "a" + r + "b"}};
  for (const auto& [in, expected] : cases) {
    std::string out;
    append_escaped(out, in, Escapes::kString);
    EXPECT_EQ(out, expected);
  }
}

TEST(ParseLevel, KnowsNamesInAnyCase) {
  EXPECT_EQ(parse_level("debug"), Level::kDebug);
  EXPECT_EQ(parse_level("WARN"), Level::kWarn);
  EXPECT_EQ(parse_level("Error"), Level::kError);
  EXPECT_EQ(parse_level("trace"), Level::kTrace);
  EXPECT_EQ(parse_level("off"), Level::kOff);
  EXPECT_EQ(parse_level("warnx"), Level::kInfo);
  EXPECT_EQ(parse_level(""), Level::kInfo);
}

}  // namespace
}  // namespace coxswain::telemetry
