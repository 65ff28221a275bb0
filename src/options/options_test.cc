#include "options/options.h"

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::options {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

ParseResult run(Binary binary,
                std::initializer_list<const char*> arguments,
                const Environment& environment = {}) {
  std::vector<const char*> argv{"program"};
  argv.insert(argv.end(), arguments);
  return parse(binary, static_cast<int>(argv.size()), argv.data(), environment);
}

OptionValues good(Binary binary,
                  std::initializer_list<const char*> arguments,
                  const Environment& environment = {}) {
  ParseResult result = run(binary, arguments, environment);
  EXPECT_EQ(result.exit_code, std::nullopt) << result.output;
  return std::move(result.values);
}

std::string refused(Binary binary,
                    std::initializer_list<const char*> arguments,
                    const Environment& environment = {}) {
  const ParseResult result = run(binary, arguments, environment);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  return result.output;
}

TEST(OptionTable, NamesAreUniqueInEachBinary) {
  for (const Binary binary : kBinaries) {
    std::set<std::string_view> keys;
    std::set<std::string_view> variables;
    std::set<char> letters{'h', 'V'};
    for (const OptionSpec& spec : option_table()) {
      if (!spec.is_in(binary)) continue;
      EXPECT_TRUE(keys.insert(spec.key()).second) << spec.name;
      if (const std::string_view env = spec.env_in(binary); !env.empty()) {
        EXPECT_TRUE(variables.insert(env).second) << env;
      }
      if (spec.short_name != 0) {
        EXPECT_TRUE(letters.insert(spec.short_name).second) << spec.name;
      }
    }
  }
}

TEST(OptionTable, RowsExplainThemselves) {
  for (const OptionSpec& spec : option_table()) {
    EXPECT_NE(spec.binaries, 0) << spec.name;
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    EXPECT_NE(spec.help.back(), '.') << spec.name;
    EXPECT_FALSE(spec.name.empty() && spec.env.empty());
    EXPECT_EQ(spec.env_binaries & ~spec.binaries, 0)
        << spec.name << ": only its own binaries read its variable";
    if (spec.status == OptionStatus::kNoop) {
      EXPECT_FALSE(spec.reason.empty()) << spec.name;
    }
    if (spec.type == OptionType::kChoice) {
      EXPECT_FALSE(spec.choices.empty()) << spec.name;
    }
    if (spec.ours && !spec.env.empty()) {
      // Kubernetes sets its variables in every pod.
      EXPECT_THAT(std::string(spec.env), AnyOf(StartsWith("COXSWAIN_"), StartsWith("KUBERNETES_")));
    }
  }
}

TEST(OptionTable, HasEveryLauncherOptionOfTgi) {
  for (const char* name : {"model-id",
                           "revision",
                           "validation-workers",
                           "sharded",
                           "num-shard",
                           "quantize",
                           "speculate",
                           "dtype",
                           "kv-cache-dtype",
                           "trust-remote-code",
                           "max-concurrent-requests",
                           "max-best-of",
                           "max-stop-sequences",
                           "max-top-n-tokens",
                           "max-input-tokens",
                           "max-input-length",
                           "max-total-tokens",
                           "waiting-served-ratio",
                           "max-batch-prefill-tokens",
                           "max-batch-total-tokens",
                           "max-waiting-tokens",
                           "max-batch-size",
                           "cuda-graphs",
                           "hostname",
                           "port",
                           "prometheus-port",
                           "shard-uds-path",
                           "master-addr",
                           "master-port",
                           "huggingface-hub-cache",
                           "weights-cache-override",
                           "disable-custom-kernels",
                           "cuda-memory-fraction",
                           "rope-scaling",
                           "rope-factor",
                           "json-output",
                           "otlp-endpoint",
                           "otlp-service-name",
                           "cors-allow-origin",
                           "api-key",
                           "watermark-gamma",
                           "watermark-delta",
                           "ngrok",
                           "ngrok-authtoken",
                           "ngrok-edge",
                           "tokenizer-config-path",
                           "disable-grammar-support",
                           "env",
                           "max-client-batch-size",
                           "lora-adapters",
                           "usage-stats",
                           "payload-limit",
                           "enable-prefill-logprobs",
                           "graceful-termination-timeout"}) {
    EXPECT_NE(find_option(Binary::kLauncher, name), nullptr) << name;
  }
}

// The table decides what a getter returns.
static_assert(std::is_same_v<decltype(std::declval<OptionValues>().get<"port">()), std::uint16_t>);
static_assert(
    std::is_same_v<decltype(std::declval<OptionValues>().get<"payload-limit">()), std::uint64_t>);
static_assert(std::is_same_v<decltype(std::declval<OptionValues>().get<"max-total-tokens">()),
                             std::optional<std::uint32_t>>);
static_assert(std::is_same_v<decltype(std::declval<OptionValues>().get<"idle-timeout-ms">()),
                             std::chrono::milliseconds>);
static_assert(
    std::is_same_v<decltype(std::declval<OptionValues>().get<"hostname">()), const std::string&>);
static_assert(std::is_same_v<decltype(std::declval<OptionValues>().get<"PREFIX_CACHING">()), bool>);
static_assert(!facts_of("no-such-option").exists);

TEST(OptionTable, NamesOfOneSpellingHaveOneType) {
  for (const OptionSpec& spec : option_table()) {
    for (const OptionSpec& other : option_table()) {
      if (spec.key() != other.key()) continue;
      EXPECT_EQ(spec.unit, other.unit) << spec.key();
      EXPECT_EQ(spec.group, other.group) << spec.key();
    }
  }
}

TEST(Parse, AVariableCountsOnlyWhereItsRowSaysSo) {
  const Environment environment{{"DTYPE", "float16"}, {"JSON_OUTPUT", "true"}};
  EXPECT_EQ(good(Binary::kLauncher, {}, environment).get<"dtype">(), "float16");
  EXPECT_EQ(good(Binary::kServer, {"serve", "m"}, environment).get<"dtype">(), std::nullopt);
  EXPECT_FALSE(good(Binary::kServer, {"serve", "m"}, environment).get<"json-output">());
  EXPECT_THAT(run(Binary::kLauncher, {"--help-all"}).output, HasSubstr("[env: JSON_OUTPUT]"));
  EXPECT_THAT(run(Binary::kServer, {"--help-all"}).output, Not(HasSubstr("JSON_OUTPUT")));
  EXPECT_THAT(forwarded_arguments(good(Binary::kLauncher, {}, environment), Binary::kServer),
              Contains("--dtype=float16"));
}

TEST(Parse, SwitchesInTheEnvironmentTakeTheirWords) {
  for (const char* on : {"true", "1"}) {
    EXPECT_TRUE(good(Binary::kRouter, {}, {{"LOG_COLORIZE", on}}).get<"LOG_COLORIZE">()) << on;
  }
  for (const char* off : {"false", "0"}) {
    EXPECT_FALSE(good(Binary::kRouter, {}, {{"PREFIX_CACHING", off}}).get<"PREFIX_CACHING">())
        << off;
  }
  EXPECT_TRUE(good(Binary::kRouter, {}).get<"PREFIX_CACHING">());
  EXPECT_THAT(refused(Binary::kRouter, {}, {{"LOG_COLORIZE", "yes"}}),
              HasSubstr("one of `0`, `1`"));
}

TEST(Parse, DefaultsAreThoseOfTgi) {
  const OptionValues launcher = good(Binary::kLauncher, {});
  EXPECT_EQ(launcher.get<"port">(), 3000U);
  EXPECT_EQ(launcher.get<"hostname">(), "0.0.0.0");
  EXPECT_EQ(launcher.get<"waiting-served-ratio">(), 0.3);
  EXPECT_EQ(launcher.get<"max-concurrent-requests">(), 128U);
  EXPECT_EQ(launcher.get<"graceful-termination-timeout">(), std::chrono::seconds(90));
  EXPECT_EQ(launcher.get<"max-batch-prefill-tokens">(), 256U);  // ours: TGI derives it for GPUs
  EXPECT_EQ(launcher.get<"max-input-tokens">(), std::nullopt);
  EXPECT_FALSE(launcher.get<"json-output">());
  EXPECT_THAT(launcher.get<"cors-allow-origin">(), IsEmpty());
  const OptionValues router = good(Binary::kRouter, {});
  EXPECT_EQ(router.get<"waiting-served-ratio">(), 1.2);
  EXPECT_EQ(router.get<"max-batch-prefill-tokens">(), 4096U);
  EXPECT_EQ(router.get<"payload-limit">(), 2'000'000U);
  EXPECT_EQ(router.get<"master-shard-uds-path">(), "/tmp/text-generation-server-0");
}

TEST(Parse, CommandLineBeatsEnvironmentBeatsDefault) {
  const Environment environment{{"PORT", "80"}, {"MAX_BEST_OF", "3"}, {"JSON_OUTPUT", "true"}};
  const OptionValues values = good(Binary::kLauncher, {"-p", "8080"}, environment);
  EXPECT_EQ(values.get<"port">(), 8080U);
  EXPECT_EQ(values.source("port"), Source::kCommandLine);
  EXPECT_EQ(values.get<"max-best-of">(), 3U);
  EXPECT_EQ(values.source("max-best-of"), Source::kEnvironment);
  EXPECT_TRUE(values.get<"json-output">());
  EXPECT_EQ(values.source("payload-limit"), Source::kDefault);
  EXPECT_FALSE(values.is_set<"payload-limit">());
  EXPECT_EQ(values.source("dtype"), Source::kUnset);
}

TEST(Parse, AcceptsTheUsualSpellings) {
  EXPECT_EQ(good(Binary::kRouter, {"--port=81"}).get<"port">(), 81U);
  EXPECT_EQ(good(Binary::kRouter, {"--port", "81"}).get<"port">(), 81U);
  EXPECT_EQ(good(Binary::kRouter, {"-p81"}).get<"port">(), 81U);
  EXPECT_EQ(good(Binary::kRouter, {"-p=81"}).get<"port">(), 81U);
  EXPECT_EQ(good(Binary::kRouter, {"--tokenizer-name", "-q=8"}).get<"tokenizer-name">(), "-q=8");
  EXPECT_EQ(good(Binary::kLauncher, {"-g", "5"}).get<"graceful-termination-timeout">().count(),
            5000);
  EXPECT_THAT(
      good(Binary::kRouter, {"--cors-allow-origin", "http://a", "--cors-allow-origin=http://b"})
          .get<"cors-allow-origin">(),
      ElementsAre("http://a", "http://b"));
  EXPECT_EQ(good(Binary::kLauncher, {"--model-id", "[a,b]"}).get<"model-id">(), "[a,b]");
}

TEST(Parse, EnvironmentIsStrict) {
  EXPECT_THAT(refused(Binary::kLauncher, {}, {{"JSON_OUTPUT", "1"}}),
              HasSubstr("`JSON_OUTPUT` must be `true` or `false`, not `1`"));
  EXPECT_THAT(refused(Binary::kLauncher, {}, {{"PORT", "tcp://1.2.3.4:80"}}), HasSubstr("`PORT`"));
  EXPECT_FALSE(good(Binary::kLauncher, {}, {{"JSON_OUTPUT", ""}}).is_set<"json-output">());
  EXPECT_FALSE(good(Binary::kLauncher, {}, {{"JSON_OUTPUT", "false"}}).get<"json-output">());
  // A wrong variable does no harm where the command line decides, nor in a binary that lacks the row.
  EXPECT_EQ(good(Binary::kRouter, {"--port", "1"}, {{"PORT", "x"}}).get<"port">(), 1U);
  good(Binary::kServer, {"serve", "model"}, {{"PORT", "x"}, {"QUANTIZE", "gptq"}});
}

TEST(Parse, UsageErrorsNameOptionValueAndLimit) {
  EXPECT_THAT(refused(Binary::kRouter, {"--port", "99999"}),
              HasSubstr("`--port` must be a whole number from 0 to 65535, not `99999`"));
  for (const char* bad : {"-1", "1.5", "0x10", " 1", "1 ", "18446744073709551616", "one"}) {
    EXPECT_THAT(refused(Binary::kRouter, {"--max-best-of", bad}), HasSubstr("max-best-of")) << bad;
  }
  EXPECT_THAT(refused(Binary::kRouter, {"--payload-limit=0"}),
              HasSubstr("(bytes, or with a unit as in 512MB or 4GiB), not `0`"));
  EXPECT_THAT(refused(Binary::kRouter, {"--waiting-served-ratio=nan"}),
              HasSubstr("a number from 0"));
  EXPECT_THAT(refused(Binary::kRouter, {"--capacity-policy=best"}),
              HasSubstr("one of `adaptive`, `max-utilization`, `guaranteed-no-evict`, "
                        "`static-batch`, not `best`"));
  EXPECT_THAT(refused(Binary::kLauncher, {"--block-tokens=17"}), HasSubstr("one of `1`, `2`"));
  EXPECT_THAT(refused(Binary::kRouter, {"--no-such-thing=3"}),
              HasSubstr("unknown option `--no-such-thing`"));
  EXPECT_THAT(refused(Binary::kLauncher, {"--help-me"}), HasSubstr("`--help-me` (see"));
  EXPECT_THAT(refused(Binary::kRouter, {"-x"}), HasSubstr("unknown option `-x`"));
  EXPECT_THAT(refused(Binary::kLauncher, {"print-schema"}), HasSubstr("`print-schema`"));
  EXPECT_THAT(refused(Binary::kRouter, {"print-schema", "now"}), HasSubstr("`now`"));
  EXPECT_THAT(refused(Binary::kRouter, {"--port"}), HasSubstr("`--port` needs a value"));
  EXPECT_THAT(refused(Binary::kRouter, {"--port="}), HasSubstr("port"));
  EXPECT_THAT(refused(Binary::kRouter, {"--port=1", "--port=1"}), HasSubstr("2 times"));
  EXPECT_THAT(refused(Binary::kRouter, {"--json-output=maybe"}),
              HasSubstr("`--json-output` takes no value"));
  EXPECT_THAT(refused(Binary::kLauncher, {"--sharded"}), HasSubstr("sharded"));
  EXPECT_THAT(refused(Binary::kLauncher, {"--sharded", "yes"}), HasSubstr("`true` or `false`"));
  EXPECT_THAT(refused(Binary::kLauncher, {"--sharded", "true"}),
              HasSubstr("one shard holds the whole model"));
  EXPECT_THAT(good(Binary::kLauncher, {"--sharded", "false"}).texts("sharded"),
              ElementsAre("false"));
  EXPECT_THAT(refused(Binary::kRouter, {"--api-key", ""}), HasSubstr("must not be empty"));
}

TEST(Parse, BytesTakeUnits) {
  const auto payload = [](const char* text) {
    return good(Binary::kRouter, {"--payload-limit", text}).get<"payload-limit">();
  };
  EXPECT_EQ(payload("2000000"), 2'000'000U);
  EXPECT_EQ(payload("2MB"), 2'000'000U);
  EXPECT_EQ(payload("2mb"), 2'000'000U);
  EXPECT_EQ(payload("2M"), 2'000'000U);
  EXPECT_EQ(payload("2 MiB"), 2U << 20);
  EXPECT_EQ(payload("2Mi"), 2U << 20);
  EXPECT_EQ(payload("0.5KiB"), 512U);
  EXPECT_EQ(payload("7B"), 7U);
  for (const char* bad :
       {"MB", "2XB", "2 ", "-2MB", "2..5MB", "2MBs", "5GiB", "99999999999999TB", "1.5"}) {
    EXPECT_THAT(refused(Binary::kRouter, {"--payload-limit", bad}), HasSubstr("payload-limit"))
        << bad;
  }
  EXPECT_THAT(refused(Binary::kRouter, {"--port", "3kB"}), HasSubstr("`3kB`"));
  // Children get plain numbers.
  EXPECT_THAT(
      forwarded_arguments(good(Binary::kLauncher, {"--memory-bytes-max=4GiB"}), Binary::kServer),
      Contains("--memory-bytes-max=4294967296"));
}

TEST(Parse, NumbersStandInAListWithCommas) {
  const auto windows = [](const char* text) {
    return good(Binary::kServer, {"serve", "m", "--max-attention-window", text})
        .get<"max-attention-window">();
  };
  EXPECT_THAT(windows("4096"), ElementsAre(4096U));
  EXPECT_THAT(windows("4096,0,16777216"), ElementsAre(4096U, 0U, 16'777'216U));
  EXPECT_THAT(good(Binary::kServer, {"serve", "m"}).get<"max-attention-window">(), ElementsAre(0U));
  for (const char* bad : {",", "1,", ",1", "1,,2", "1, 2", "1;2", "1,-2", "1,16777217", "all"}) {
    EXPECT_THAT(refused(Binary::kLauncher, {"--max-attention-window", bad}),
                HasSubstr("`--max-attention-window` must be whole numbers from 0 to 16777216 "
                          "(tokens) with commas between them, not `" +
                          std::string(bad) + "`"));
  }
  const OptionValues launcher =
      good(Binary::kLauncher, {"--model-id=m"}, {{"COXSWAIN_MAX_ATTENTION_WINDOW", "64,0"}});
  EXPECT_THAT(forwarded_arguments(launcher, Binary::kServer),
              Contains("--max-attention-window=64,0"));
}

TEST(Parse, AMistypedOptionIsAnsweredWithTheOneMeant) {
  const auto meant = [](const char* typed) {
    const std::string line = refused(Binary::kLauncher, {typed, "x"});
    const std::size_t at = line.find("did you mean ");
    return at == std::string::npos ? std::string() : line.substr(at + 13, line.find('?') - at - 13);
  };
  EXPECT_EQ(meant("--model_id"), "`--model-id`");
  EXPECT_EQ(meant("--modelid"), "`--model-id`");
  EXPECT_EQ(meant("--Model-Id=y"), "`--model-id`");
  EXPECT_EQ(meant("--max-total-token"), "`--max-total-tokens`");
  EXPECT_EQ(meant("--max-concurrent"), "`--max-concurrent-requests`");
  EXPECT_EQ(meant("--prot"), "`--port`");
  EXPECT_EQ(meant("--max"), "");  // many begin so
  EXPECT_EQ(meant("--nonsense"), "");
  EXPECT_EQ(meant("--tokenizer-name"), "");  // the router's
}

TEST(Parse, LongAndBinaryValuesStayOneShortLine) {
  const std::string bad = std::string(10'000, 'a') + "\n\x1b[31m";
  const std::string line = refused(Binary::kRouter, {"--port", bad.c_str()});
  EXPECT_LT(line.size(), 250U);
  EXPECT_EQ(refused(Binary::kRouter, {"--port", "\x1b[31m"}).find('\x1b'), std::string::npos);
  const std::string unknown = refused(Binary::kRouter, {("--" + bad).c_str()});
  EXPECT_LT(unknown.size(), 250U);
  EXPECT_EQ(refused(Binary::kRouter, {"--\x1b[31m=3"}).find('\x1b'), std::string::npos);
}

TEST(Parse, HostnameThatIsNoAddress) {
  const ParseResult machine = run(Binary::kLauncher, {}, {{"HOSTNAME", "3f2a8c"}});
  EXPECT_EQ(machine.values.get<"hostname">(), "0.0.0.0");
  ASSERT_EQ(machine.warnings.size(), 1U);
  EXPECT_THAT(machine.warnings[0], HasSubstr("Invalid hostname 3f2a8c in `HOSTNAME`"));
  EXPECT_EQ(good(Binary::kRouter, {"--hostname=::1"}).get<"hostname">(), "::1");
  EXPECT_EQ(good(Binary::kRouter, {"--hostname=localhost"}).get<"hostname">(), "127.0.0.1");
  EXPECT_THAT(run(Binary::kRouter, {"--hostname=::1"}).warnings, IsEmpty());
}

// Where it stands on the command line, listening on all addresses in its place would open the machine.
TEST(Parse, AMistypedHostnameIsRefused) {
  EXPECT_THAT(
      refused(Binary::kLauncher, {"--hostname=127.0.0.l"}),
      HasSubstr("`--hostname` must be an IPv4 or IPv6 address or `localhost`, not `127.0.0.l`"));
  EXPECT_THAT(refused(Binary::kRouter, {"--hostname=[::1"}), HasSubstr("--hostname"));
  EXPECT_THAT(refused(Binary::kRouter, {"--hostname=[127.0.0.1]"}), HasSubstr("--hostname"));
  EXPECT_EQ(good(Binary::kRouter, {"--hostname=[::1]"}).get<"hostname">(), "::1");
  EXPECT_EQ(good(Binary::kRouter, {}, {{"HOSTNAME", "[::1]"}}).get<"hostname">(), "::1");
}

TEST(Parse, RefusesWhatWouldChangeSomething) {
  EXPECT_THAT(refused(Binary::kLauncher, {"--lora-adapters=a"}),
              HasSubstr("`--lora-adapters` is not supported yet"));
  EXPECT_THAT(refused(Binary::kLauncher, {"--ngrok"}), HasSubstr("`--ngrok` is not supported yet"));
  EXPECT_THAT(refused(Binary::kLauncher, {"--num-shard", "2"}), HasSubstr("num-shard"));
  EXPECT_THAT(refused(Binary::kLauncher, {"--quantize", "eetq"}),
              AllOf(HasSubstr("`eetq` for `--quantize` is not supported yet; supported: `int8`, "),
                    HasSubstr("`fp8`, or leave it out for the type of the stored tensors")));
  EXPECT_THAT(refused(Binary::kServer, {"serve", "m", "--sharded"}), HasSubstr("--sharded"));
  for (const char* name : {"WORLD_SIZE", "LORA_ADAPTERS"}) {
    EXPECT_THAT(refused(Binary::kServer, {"serve", "m"}, {{name, "2"}}), HasSubstr(name));
  }
  good(Binary::kLauncher,
       {"--num-shard=1", "--watermark-delta=2.0", "--quantize=int8", "--watermark-gamma", "0.50"},
       {{"NGROK", "false"}});
}

// As TGI's launcher hands them to its shards.
TEST(Parse, RopeComesInVariables) {
  const auto values =
      good(Binary::kServer, {"serve", "m"}, {{"ROPE_SCALING", "dynamic"}, {"ROPE_FACTOR", "2.0"}});
  EXPECT_EQ(values.get<"rope-scaling">(), "dynamic");
  EXPECT_EQ(values.get<"rope-factor">(), 2.0);
  EXPECT_THAT(refused(Binary::kLauncher, {"--rope-factor=0.5"}),
              AllOf(HasSubstr("rope-factor"), HasSubstr("0.5"), HasSubstr("1")));
  EXPECT_THAT(refused(Binary::kLauncher, {"--rope-scaling=yarn"}), HasSubstr("`dynamic`"));
}

TEST(Parse, OptionsWithoutEffectSaySo) {
  const ParseResult result = run(Binary::kLauncher,
                                 {"--cuda-memory-fraction=0.5",
                                  "--usage-stats=off",
                                  "--enable-prefill-logprobs",
                                  "--deterministic"});
  EXPECT_EQ(result.exit_code, std::nullopt);
  EXPECT_THAT(result.warnings,
              ElementsAre("`--cuda-memory-fraction` has no effect: it tunes CUDA devices only"));
  // What is off anyway needs no word.
  EXPECT_THAT(run(Binary::kLauncher,
                  {},
                  {{"TRUST_REMOTE_CODE", "false"}, {"DISABLE_CUSTOM_KERNELS", "false"}})
                  .warnings,
              IsEmpty());
  EXPECT_THAT(run(Binary::kLauncher, {}, {{"ENABLE_PREFILL_LOGPROBS", "false"}}).warnings,
              ElementsAre("`ENABLE_PREFILL_LOGPROBS` has no effect: they are always allowed"));
  // What nothing depends on here does not keep a TGI container from starting.
  EXPECT_THAT(
      run(Binary::kLauncher, {"--ngrok-authtoken=t"}, {{"CUDA_GRAPHS", "1"}, {"REVISION", "main"}})
          .warnings,
      UnorderedElementsAre("`--ngrok-authtoken` has no effect: no tunnel is opened",
                           "`CUDA_GRAPHS` has no effect: it tunes CUDA devices only"));
  EXPECT_THAT(run(Binary::kServer, {"serve", "m"}, {{"RANK", "2"}}).warnings,
              ElementsAre(HasSubstr("its socket ends in -0")));
}

TEST(Parse, ServerTakesItsModelAsAWord) {
  const OptionValues values =
      good(Binary::kServer, {"serve", "/models/a", "--uds-path", "/run/x", "--dtype=float32"});
  EXPECT_EQ(values.get<"model-id">(), "/models/a");
  EXPECT_EQ(values.get<"uds-path">(), "/run/x");
  EXPECT_EQ(values.get<"dtype">(), "float32");
  EXPECT_EQ(good(Binary::kServer, {"--threads=2", "serve", "a"}).get<"threads">(), 2U);
  EXPECT_THAT(refused(Binary::kServer, {}), HasSubstr("serve MODEL_ID"));
  EXPECT_THAT(refused(Binary::kServer, {"serve"}), HasSubstr("needs the folder of a model"));
  EXPECT_THAT(refused(Binary::kServer, {"serve", "a", "b"}), HasSubstr("unexpected argument `b`"));
  EXPECT_THAT(refused(Binary::kServer, {"quantize", "a", "b"}), HasSubstr("not supported yet"));
  EXPECT_THAT(refused(Binary::kServer, {"serve", "--model-id=a"}), HasSubstr("--model-id"));
}

TEST(Parse, HelpAndVersionEndTheProgram) {
  const ParseResult help = run(Binary::kLauncher, {"--help-all", "--port=x"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output,
              StartsWith("Usage: text-generation-launcher --model-id MODEL [options]\n"));
  EXPECT_THAT(help.output,
              HasSubstr("-p, --port N\n      HTTP port; 0 is any free one. [default: "
                        "3000] [env: PORT]\n"));
  for (const OptionSpec& spec : option_table()) {
    if (!spec.is_in(Binary::kLauncher)) continue;
    EXPECT_THAT(
        help.output,
        HasSubstr(spec.name.empty() ? std::string(spec.env) + "=" : "--" + std::string(spec.name)));
  }
  EXPECT_EQ(run(Binary::kServer, {"-h"}).exit_code, 0);
  const ParseResult version = run(Binary::kRouter, {"-V"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.output, StartsWith("text-generation-router "));
  std::istringstream lines(help.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

// One screen: the options that people use, and an example that the parser takes.
TEST(Parse, HelpIsShortAndHasAnExample) {
  for (const Binary binary : kBinaries) {
    const std::string help = run(binary, {"--help"}).output;
    EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 55) << help;
    EXPECT_THAT(help, HasSubstr("--help-all"));
    std::size_t n_common = 0;
    for (const OptionSpec& spec : option_table()) {
      const bool shown = spec.is_in(binary) && spec.common && spec.key() != "model-id";
      if (!shown) continue;
      ++n_common;
      EXPECT_THAT(help,
                  HasSubstr(spec.name.empty() ? std::string(spec.env) + "="
                                              : "--" + std::string(spec.name)));
      EXPECT_EQ(spec.status, OptionStatus::kLive) << spec.key();
    }
    EXPECT_LE(n_common, 20U);
    std::istringstream lines(help);
    std::size_t n_examples = 0;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 100U) << line;
      if (!line.starts_with("  " + std::string(program_name(binary)))) continue;
      ++n_examples;
      std::istringstream words(line);
      const std::vector<std::string> argv{std::istream_iterator<std::string>(words), {}};
      std::vector<const char*> pointers;
      pointers.reserve(argv.size());
      for (const std::string& word : argv) pointers.push_back(word.c_str());
      EXPECT_EQ(parse(binary, static_cast<int>(pointers.size()), pointers.data(), {}).exit_code,
                std::nullopt)
          << line;
    }
    EXPECT_GE(n_examples, 1U);
  }
}

TEST(Forward, GivesTheChildWhatTheParentWasGiven) {
  const OptionValues launcher = good(Binary::kLauncher,
                                     {"--port=81",
                                      "--json-output",
                                      "--api-key=secret",
                                      "--cors-allow-origin=http://a",
                                      "--model-id=m",
                                      "--threads=2",
                                      "--env"},
                                     {{"MAX_INPUT_TOKENS", "7"}});
  EXPECT_THAT(forwarded_arguments(launcher, Binary::kRouter),
              UnorderedElementsAre("--port=81",
                                   "--json-output",
                                   "--cors-allow-origin=http://a",
                                   "--max-input-tokens=7",
                                   "--max-batch-prefill-tokens=256",
                                   "--waiting-served-ratio=0.3"));
  EXPECT_THAT(forwarded_environment(launcher, Binary::kRouter), ElementsAre("API_KEY=secret"));
  EXPECT_THAT(forwarded_arguments(launcher, Binary::kServer),
              UnorderedElementsAre("--json-output",
                                   "--threads=2",
                                   "--max-input-tokens=7",
                                   "--max-batch-prefill-tokens=256"));
  EXPECT_THAT(forwarded_environment(launcher, Binary::kServer), IsEmpty());
}

TEST(Environment, IsReadFromTheProcess) {
  const char* entries[] = {"A=1", "B=", "C=x=y", "broken", nullptr};
  EXPECT_THAT(environment_of(entries),
              UnorderedElementsAre(std::pair<const std::string, std::string>("A", "1"),
                                   std::pair<const std::string, std::string>("B", ""),
                                   std::pair<const std::string, std::string>("C", "x=y")));
}

TEST(EnvironmentOf, APortOfVertexIsThePort) {
  const char* const alone[] = {"AIP_HTTP_PORT=8080", nullptr};
  EXPECT_EQ(environment_of(alone).at("PORT"), "8080");
  const char* const both[] = {"AIP_HTTP_PORT=8080", "PORT=81", nullptr};
  EXPECT_EQ(environment_of(both).at("PORT"), "81");
}

TEST(ReferencePage, IsUpToDate) {
  const char* source = std::getenv("COXSWAIN_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "COXSWAIN_SOURCE_DIR is not set";
  const std::string path = std::string(source) + "/docs/options.md";
  if (std::getenv("COXSWAIN_UPDATE_DOCS") != nullptr) std::ofstream(path) << reference_page();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == reference_page())
      << path << " is stale: run this test with COXSWAIN_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace coxswain::options
