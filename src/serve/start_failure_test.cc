#include "serve/start_failure.h"

#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

TEST(StartFailure, TheLastSemicolonPartsCauseAndCure) {
  const Status status = invalid_argument("the file a; b is cut short; download it again");
  const StartFailure failure = make_start_failure("DownloadError", status, "unused", kExitModel);
  EXPECT_EQ(failure.cause, "the file a; b is cut short");
  EXPECT_EQ(failure.cure, "Download it again.");
  EXPECT_EQ(failure.exit_code, kExitModel);
}

TEST(StartFailure, AMessageWithoutACureTakesTheOneGiven) {
  const StartFailure failure =
      make_start_failure("Axum", invalid_argument("port taken"), "Choose another.", kExitFailure);
  EXPECT_EQ(failure.cause, "port taken");
  EXPECT_EQ(failure.cure, "Choose another.");
}

TEST(StartFailure, ItsLinesAreReadBack) {
  const StartFailure failure{"ShardCannotStart", "cannot open \"x\"\nor y", "Look.", kExitModel};
  const std::string lines = to_lines(failure);
  EXPECT_EQ(lines, "Error: ShardCannotStart(\"cannot open \\\"x\\\"\\nor y\")\nLook.\n");
  const auto read = read_failure_line(lines.substr(0, lines.find('\n')));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->variant, failure.variant);
  EXPECT_EQ(read->cause, failure.cause);
  EXPECT_EQ(read->cure, "");
}

TEST(StartFailure, WithoutACureThereIsOneLine) {
  EXPECT_EQ(to_lines({"A", "b", "", kExitFailure}), "Error: A(\"b\")\n");
}

TEST(StartFailure, OtherLinesAreNone) {
  for (const char* line :
       {"", "Error: ", "Error: A", "Error: A()", "Error: A(b)", "Error: A(3)", "rror: A(\"b\")"}) {
    EXPECT_FALSE(read_failure_line(line)) << line;
  }
}

}  // namespace
}  // namespace coxswain::serve
