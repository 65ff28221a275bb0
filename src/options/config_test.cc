// Files of --config: how they are read, which value holds, and what --print-config prints.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/config_file.h"
#include "options/options.h"

namespace coxswain::options {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A file that lives as long as the test.
class Config : public ::testing::Test {
 protected:
  Config() { std::filesystem::create_directories(folder_); }
  ~Config() override { std::filesystem::remove_all(folder_); }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  ParseResult run(Binary binary,
                  const std::string& text,
                  std::initializer_list<const char*> arguments = {},
                  const Environment& environment = {}) const {
    std::ofstream(path_, std::ios::binary) << text;
    std::vector<const char*> argv{"program", "--config", path_.c_str()};
    argv.insert(argv.end(), arguments);
    return parse(binary, static_cast<int>(argv.size()), argv.data(), environment);
  }
  OptionValues good(Binary binary,
                    const std::string& text,
                    std::initializer_list<const char*> arguments = {},
                    const Environment& environment = {}) const {
    ParseResult result = run(binary, text, arguments, environment);
    EXPECT_EQ(result.exit_code, std::nullopt) << result.output;
    return std::move(result.values);
  }
  std::string refused(Binary binary, const std::string& text) const {
    const ParseResult result = run(binary, text);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(std::ranges::count(result.output, '\n'), 1) << result.output;
    return result.output;
  }

  const std::string folder_ = ::testing::TempDir() + "config-" +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path_ = folder_ + "/c.yaml";
};

std::vector<std::string> texts_of(std::string_view file, const std::string& name = "a") {
  const auto read = parse_config(file, "f");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? read->entries.at(name).texts : std::vector<std::string>();
}

std::string error_of(std::string_view file) {
  const auto read = parse_config(file, "f");
  EXPECT_FALSE(read.ok()) << file;
  return read.ok() ? "" : read.status().message();
}

TEST(ConfigFile, HasScalarsAndLists) {
  EXPECT_THAT(texts_of("a: b"), ElementsAre("b"));
  EXPECT_THAT(texts_of("\n# c\r\na:  b c  # d\r\n"), ElementsAre("b c"));
  EXPECT_THAT(texts_of("a: b#c"), ElementsAre("b#c"));
  EXPECT_THAT(texts_of("a: http://h:1/x"), ElementsAre("http://h:1/x"));
  EXPECT_THAT(texts_of("a: -1"), ElementsAre("-1"));
  EXPECT_THAT(texts_of("a: 'it''s # 1'  # c"), ElementsAre("it's # 1"));
  EXPECT_THAT(texts_of(R"(a: "q\"\\\n\x07: é")"), ElementsAre("q\"\\\n\x07: é"));
  EXPECT_THAT(texts_of("a: ''"), ElementsAre(""));
  EXPECT_THAT(texts_of("a: # c\n  - b  # d\n\n# e\n  - 'c'\nb: d"), ElementsAre("b", "c"));
  EXPECT_THAT(texts_of("a:\n- b\n- c"), ElementsAre("b", "c"));
  EXPECT_TRUE(parse_config("", "f")->entries.empty());
  EXPECT_EQ(parse_config("\n\nA_B: c", "f")->entries.at("A_B").line, 3U);
}

TEST(ConfigFile, RefusesTheRestOfYamlByLine) {
  const std::pair<const char*, const char*> bad[] = {
      {"a", "f:1: this is no `name: value`"},
      {"x: y\na b: c", "f:2: this is no `name: value`"},
      {"a:b", "no `name: value`"},
      {"---", "no `name: value`"},
      {"'a': b", "no `name: value`"},
      {": b", "no `name: value`"},
      {"a: b\n c: d", "f:2: only the entries of a list may be indented"},
      {"a: b\n  - c", "f:2: an entry of a list follows `name:` alone"},
      {"- c", "follows `name:` alone"},
      {"a:\n  - b\n - c", "f:3: entries of a list have the same indentation"},
      {"a:\n  -\n", "f:2: a value is missing"},
      {"a:\n\nb: c", "f:1: a value is missing"},
      {"b: c\na:", "f:2: a value is missing"},
      {"a: ~", "a value is missing"},
      {"a: null", "quote `null`"},
      {"a: b\na: b", "f:2: `a` is there already, on line 1"},
      {"a: [b, c]", "`[b, c]` means something else in YAML; quote it"},
      {"a: {b: c}", "quote it"},
      {"a: &b c", "quote it"},
      {"a: *b", "quote it"},
      {"a: !!str 3", "quote it"},
      {"a: |", "quote it"},
      {"a: b: c", "quote it"},
      {"a: b:", "quote it"},
      {"a:\n  - - b", "f:2: `- b` means"},
      {"a: \"b", "f:1: the quote is not closed on its line"},
      {"a: 'b' c", "something follows the closing quote"},
      {"a: 'b'# c", "something follows the closing quote"},
      {R"(a: "\q")", "of escapes there are"},
      {R"(a: "\xe9")", "of escapes there are"},
      {"a: b\tc", "tabs and control characters"},
      {"a: \x1b[31m", "tabs and control characters"},
      {"a: \xff", "not UTF-8"},
  };
  for (const auto& [file, message] : bad) EXPECT_THAT(error_of(file), HasSubstr(message)) << file;
}

TEST(ConfigFile, ReadsBackWhatItWrites) {
  for (const char* text : {"/models/a-b_c.gguf",
                           "word",
                           "true",
                           "No",
                           "null",
                           "3000",
                           "1e3",
                           "-",
                           "",
                           "~",
                           "a: b",
                           "a #b",
                           "#a",
                           "'",
                           "\"",
                           "\\x41",
                           "é",
                           "\n\t\x1b",
                           " a ",
                           "[a]",
                           "*"}) {
    EXPECT_THAT(texts_of("a: " + config_scalar(text)), ElementsAre(text));
  }
  EXPECT_EQ(config_scalar("/models/a"), "/models/a");
  EXPECT_EQ(config_scalar("true"), "\"true\"");
}

TEST_F(Config, IsBeatenByTheCommandLineAndTheEnvironment) {
  const std::string file =
      "port: 1\nmax-best-of: 3\ncors-allow-origin:\n- http://a\n- http://b\n"
      "payload-limit: 2 MiB\nPREFIX_CACHING: false\njson-output: true\n";
  const OptionValues values =
      good(Binary::kRouter, file, {"--port=3"}, {{"PORT", "2"}, {"MAX_BEST_OF", ""}});
  EXPECT_EQ(values.get<"port">(), 3);
  EXPECT_EQ(good(Binary::kRouter, file, {}, {{"PORT", "2"}}).get<"port">(), 2);
  EXPECT_EQ(values.get<"max-best-of">(), 3U);
  EXPECT_TRUE(values.is_set<"max-best-of">());
  EXPECT_EQ(values.source("max-best-of"), Source::kFile);
  EXPECT_EQ(values.place("max-best-of"), path_ + ":2");
  EXPECT_THAT(values.get<"cors-allow-origin">(), ElementsAre("http://a", "http://b"));
  EXPECT_EQ(values.get<"payload-limit">(), 2U << 20);
  EXPECT_FALSE(values.get<"PREFIX_CACHING">());
  EXPECT_TRUE(values.get<"json-output">());
  EXPECT_EQ(values.get<"n-max">(), 16U);
  EXPECT_FALSE(values.is_set<"n-max">());
}

TEST_F(Config, IsFoundThroughTheEnvironment) {
  std::ofstream(path_) << "port: 7\n";
  const char* argv[] = {"program"};
  const ParseResult found = parse(Binary::kRouter, 1, argv, {{"COXSWAIN_CONFIG", path_}});
  EXPECT_EQ(found.values.get<"port">(), 7);
  const ParseResult absent =
      parse(Binary::kRouter, 1, argv, {{"COXSWAIN_CONFIG", folder_ + "/none"}});
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_THAT(absent.output, HasSubstr("/none cannot be read"));
  const ParseResult folder = parse(Binary::kRouter, 1, argv, {{"COXSWAIN_CONFIG", folder_}});
  EXPECT_THAT(folder.output, HasSubstr("cannot be read"));
}

TEST_F(Config, RefusesByNameAndLine) {
  EXPECT_THAT(refused(Binary::kRouter, "\nprot: 3\n"),
              HasSubstr(path_ + ":2: unknown option `prot`; did you mean `port`?"));
  EXPECT_THAT(refused(Binary::kRouter, "max_total_tokens: 3\n"),
              HasSubstr("did you mean `max-total-tokens`?"));
  EXPECT_THAT(refused(Binary::kRouter, "thread: 3\n"), HasSubstr("did you mean `threads`?"));
  EXPECT_THAT(refused(Binary::kRouter, "nonsense: 3\n"), Not(HasSubstr("mean")));
  EXPECT_THAT(
      refused(Binary::kRouter, "port: http\n"),
      HasSubstr("`port` (" + path_ + ":1) must be a whole number from 0 to 65535, not `http`"));
  EXPECT_THAT(refused(Binary::kRouter, "json-output: yes\n"),
              HasSubstr("must be `true` or `false`"));
  EXPECT_THAT(refused(Binary::kRouter, "port:\n  - 1\n"),
              HasSubstr(path_ + ":1: `port` has one value, not a list"));
  EXPECT_THAT(refused(Binary::kRouter, "api-key: ''\n"), HasSubstr("must not be empty"));
  EXPECT_THAT(refused(Binary::kRouter, "port: 1\nport: 1\n"), HasSubstr(path_ + ":2: `port`"));
  EXPECT_THAT(refused(Binary::kRouter, "config: x\n"), HasSubstr("command line only"));
  EXPECT_THAT(refused(Binary::kLauncher, "ngrok: true\n"),
              HasSubstr("`ngrok` (" + path_ + ":1) is not"));
  EXPECT_THAT(refused(Binary::kRouter, std::string(1 << 21, '#')), HasSubstr("1048576 bytes"));
}

// One file for the three: each takes its own, and mistakes in what is for others show at once.
TEST_F(Config, ServesAllThreePrograms) {
  const std::string file = "threads: 2\nport: 81\nuds-path: /run/s\nmodel-id: /m\n";
  EXPECT_EQ(good(Binary::kRouter, file).get<"port">(), 81);
  const OptionValues server = good(Binary::kServer, file, {"serve"});
  EXPECT_EQ(server.get<"uds-path">(), "/run/s");
  EXPECT_EQ(server.get<"model-id">(), "/m");
  EXPECT_EQ(good(Binary::kServer, file, {"serve", "/n"}).get<"model-id">(), "/n");
  EXPECT_THAT(run(Binary::kRouter, file).warnings, IsEmpty());
  EXPECT_THAT(
      run(Binary::kLauncher, file).warnings,
      ElementsAre("`uds-path` (" + path_ + ":3) has no effect: the launcher does not take it"));
  EXPECT_THAT(refused(Binary::kRouter, "threads: two\n"),
              HasSubstr("`threads` (" + path_ + ":1) must"));
}

TEST_F(Config, ChildrenAreGivenWhatTheFileSays) {
  const OptionValues launcher =
      good(Binary::kLauncher, "threads: 2\napi-key: k\nPREFIX_CACHING: false\nautoscale: false\n");
  EXPECT_THAT(forwarded_arguments(launcher, Binary::kServer), Contains("--threads=2"));
  EXPECT_THAT(forwarded_arguments(launcher, Binary::kServer), Not(Contains(HasSubstr("config"))));
  EXPECT_THAT(forwarded_environment(launcher, Binary::kRouter),
              ::testing::UnorderedElementsAre("API_KEY=k", "PREFIX_CACHING=false"));
}

// Docker sets HOSTNAME: the file's address must hold, or the server would listen on all.
TEST_F(Config, AContainersNameDoesNotOpenTheMachine) {
  const auto at = [&](const std::string& variable) {
    return good(Binary::kRouter, "hostname: 127.0.0.1\n", {}, {{"HOSTNAME", variable}})
        .get<"hostname">();
  };
  EXPECT_EQ(at("3f2a8c"), "127.0.0.1");
  EXPECT_EQ(at("::1"), "::1");
  EXPECT_EQ(at("[::1]"), "::1");
  EXPECT_EQ(
      good(Binary::kRouter, "hostname: '::1'\n", {}, {{"HOSTNAME", "localhost"}}).get<"hostname">(),
      "127.0.0.1");
  EXPECT_THAT(refused(Binary::kRouter, "hostname: 3f2a8c\n"), HasSubstr("must be an IPv4"));
}

TEST_F(Config, PrintsWhatHolds) {
  const std::string file = "port: 1\ncors-allow-origin:\n  - http://a\nserved-model-name: 'true'\n";
  const ParseResult first = run(Binary::kRouter,
                                file,
                                {"--print-config", "--max-best-of=3"},
                                {{"API_KEY", "secret"}, {"NGROK_EDGE", "e"}});
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_THAT(first.output, HasSubstr("\nport: 1  # " + path_ + ":1\n"));
  EXPECT_THAT(first.output, HasSubstr("\nmax-best-of: 3  # command line\n"));
  EXPECT_THAT(first.output, HasSubstr("\n# api-key: (hidden)  # API_KEY\n"));
  EXPECT_THAT(first.output, HasSubstr("\n# n-max: 16  # default\n"));
  EXPECT_THAT(first.output, HasSubstr("\n# max-batch-size:  # not given\n"));
  EXPECT_THAT(first.output, HasSubstr("\nserved-model-name: \"true\"  # "));
  EXPECT_THAT(first.output, HasSubstr("\n# warning: `NGROK_EDGE` has no effect"));
  EXPECT_THAT(first.output, Not(HasSubstr("secret")));
  EXPECT_THAT(first.output, Not(HasSubstr("usage-stats")));
  // The same again, from its own file alone.
  const OptionValues again = good(Binary::kRouter, first.output);
  EXPECT_EQ(again.get<"port">(), 1);
  EXPECT_EQ(again.get<"max-best-of">(), 3U);
  EXPECT_THAT(again.get<"cors-allow-origin">(), ElementsAre("http://a"));
  EXPECT_EQ(again.get<"served-model-name">(), "true");
  EXPECT_FALSE(again.is_set<"n-max">());
}

}  // namespace
}  // namespace coxswain::options
