#include "measure/settings.h"

#include <initializer_list>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::measure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Settings> parse(std::initializer_list<const char*> words,
                       const options::Environment& variables = {}) {
  std::vector<const char*> argv{"text-generation-benchmark"};
  argv.insert(argv.end(), words);
  const auto parsed = options::parse(
      options::Binary::kBenchmark, static_cast<int>(argv.size()), argv.data(), variables);
  if (parsed.exit_code) return invalid_argument(parsed.output);
  return settings_of(parsed.values);
}

TEST(Settings, Defaults) {
  const auto settings = parse({"-t", "m"});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->tokenizer_name, "m");
  EXPECT_EQ(settings->revision, "main");
  EXPECT_THAT(settings->batch_sizes, ElementsAre(1, 2, 4, 8, 16, 32));
  EXPECT_EQ(settings->sequence_length, 10);
  EXPECT_EQ(settings->decode_length, 8);
  EXPECT_EQ(settings->runs, 10);
  EXPECT_EQ(settings->warmups, 1);
  EXPECT_EQ(settings->master_shard_uds_path, "/tmp/text-generation-server-0");
  EXPECT_EQ(settings->sampling(), SamplingParams());
}

TEST(Settings, EverySpelling) {
  const auto settings = parse({"--tokenizer-name=m",
                               "-b",
                               "3",
                               "-b1",
                               "--batch-size=2",
                               "-s=7",
                               "-d",
                               "4",
                               "--runs",
                               "5",
                               "-w0",
                               "-m",
                               "/s",
                               "--temperature",
                               "0.5",
                               "--top-k",
                               "4",
                               "--top-p=0.9",
                               "--typical-p",
                               "0.8",
                               "--repetition-penalty",
                               "1.1",
                               "--frequency-penalty",
                               "-0.5",
                               "--top-n-tokens",
                               "3",
                               "--watermark",
                               "--revision",
                               "r"});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_THAT(settings->batch_sizes, ElementsAre(3, 1, 2));
  EXPECT_EQ(settings->sequence_length, 7);
  EXPECT_EQ(settings->decode_length, 4);
  EXPECT_EQ(settings->runs, 5);
  EXPECT_EQ(settings->warmups, 0);
  EXPECT_EQ(settings->master_shard_uds_path, "/s");
  EXPECT_EQ(settings->revision, "r");
  EXPECT_EQ(settings->sampling(),
            (SamplingParams{.do_sample = true,
                            .temperature = 0.5F,
                            .top_k = 4,
                            .top_p = 0.9F,
                            .typical_p = 0.8F,
                            .repetition_penalty = 1.1F,
                            .relative_frequency_penalty = -0.5F,
                            .n_top_tokens = 3,
                            .watermark = true}));
}

TEST(Settings, VariablesStandBehindWords) {
  const auto settings = parse({"-s", "5"},
                              {{"TOKENIZER_NAME", "m"},
                               {"SEQUENCE_LENGTH", "6"},
                               {"RUNS", "3"},
                               {"BATCH_SIZE", "9"},
                               {"DO_SAMPLE", "true"}});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->tokenizer_name, "m");
  EXPECT_EQ(settings->sequence_length, 5);
  EXPECT_EQ(settings->runs, 3);
  EXPECT_TRUE(settings->sampling().do_sample);
  EXPECT_THAT(settings->batch_sizes, ElementsAre(1, 2, 4, 8, 16, 32));
}

TEST(Settings, WrongOnesAreNamed) {
  const auto message = [](std::initializer_list<const char*> words,
                          options::Environment variables = {}) {
    variables.emplace("TOKENIZER_NAME", "m");
    const auto settings = parse(words, variables);
    EXPECT_EQ(settings.status().code(), Code::kInvalidArgument);
    return settings.status().message();
  };
  EXPECT_THAT(message({"-d1"}),
              HasSubstr("`--decode-length` must be a whole number from 2 to 1000000"));
  EXPECT_THAT(message({"-b", "-1"}), HasSubstr("`--batch-size` must be whole numbers from 1"));
  EXPECT_THAT(message({"-b", "1", "-b", "none"}), HasSubstr("not `none`"));
  EXPECT_THAT(message({"-b", "1", "-b", "2,1"}), HasSubstr("`--batch-size` has 1 twice"));
  EXPECT_EQ(message({"--top-p", "1.5"}), "--top-p: `top_p` must be > 0.0 and <= 1.0. Given: 1.5");
  EXPECT_THAT(message({"--top-n-tokens", "65"}), HasSubstr("from 0 to 64"));
  EXPECT_EQ(parse({}).status().message(), "`--tokenizer-name` is missing");
}

}  // namespace
}  // namespace coxswain::measure
