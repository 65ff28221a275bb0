#include "options/completions.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/options.h"

namespace coxswain::options {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What bash offers for the last of `words`.
std::string offered(const std::string& words) {
  const std::string path = ::testing::TempDir() + "completions.bash";
  std::ofstream(path) << completion_script(Shell::kBash) << "COMP_WORDS=(" << words << ")\n"
                      << "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                      << "complete -p ${COMP_WORDS[0]} >/dev/null\n"
                      << "f=$(complete -p ${COMP_WORDS[0]} | sed 's/.*-F \\([a-z_]*\\) .*/\\1/')\n"
                      << "$f; echo \"${COMPREPLY[*]}\"\n";
  const std::string command = "bash --norc " + path + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");  // NOLINT(cert-env33-c): a file of this test
  std::string out;
  for (int c = 0; (c = fgetc(pipe)) != EOF;) out += static_cast<char>(c);
  pclose(pipe);
  return out;
}

TEST(Completions, BashOffersOptionsAndChoices) {
  EXPECT_EQ(offered("text-generation-launcher --max-tot"), "--max-total-tokens\n");
  EXPECT_EQ(offered("text-generation-launcher --dtype b"), "bfloat16\n");
  EXPECT_EQ(offered("text-generation-launcher --dtype = fl"), "float32 float16\n");
  EXPECT_EQ(offered("text-generation-launcher --capacity-policy = ma"), "max-utilization\n");
  EXPECT_EQ(offered("text-generation-launcher --port ''"), "\n");
  const std::string script = ::testing::TempDir() + "completions.ba";
  EXPECT_EQ(offered("text-generation-launcher --model-id " + script), script + "sh\n");
  EXPECT_EQ(offered("text-generation-server s"), "serve\n");
  EXPECT_EQ(offered("text-generation-server serve m --uds"), "--uds-path\n");
  EXPECT_EQ(offered("text-generation-benchmark --decode-l"), "--decode-length\n");
  EXPECT_EQ(offered("coxswain do"), "doctor\n");
  EXPECT_EQ(offered("coxswain fleet t"), "top\n");
  EXPECT_EQ(offered("coxswain doctor --print-c"), "--print-config\n");
}

TEST(Completions, HaveEveryOption) {
  const std::string bash = completion_script(Shell::kBash);
  const std::string zsh = completion_script(Shell::kZsh);
  const std::string fish = completion_script(Shell::kFish);
  for (const Binary binary : kBinaries) {
    const std::string man = man_page(binary);
    for (const OptionSpec& spec : option_table()) {
      const bool is_word = binary == Binary::kServer && spec.name == "model-id";
      if (!spec.is_in(binary) || is_word) continue;
      std::string roff = spec.name.empty() ? std::string(spec.env) : "--" + std::string(spec.name);
      for (std::size_t at = 0; (at = roff.find('-', at)) != std::string::npos; at += 2)
        roff.insert(at, 1, '\\');
      EXPECT_THAT(man, HasSubstr(roff)) << spec.key();
      if (spec.name.empty()) continue;
      const std::string name(spec.name);
      EXPECT_THAT(bash, HasSubstr("--" + name));
      EXPECT_THAT(zsh, HasSubstr("--" + name + (spec.type == OptionType::kFlag ? "[" : "=[")));
      EXPECT_THAT(
          fish,
          HasSubstr("complete -c " + std::string(program_name(binary)) + " -l " + name + " "));
    }
  }
  EXPECT_EQ(shell_of("csh"), std::nullopt);
}

// What would end a quote or a bracket, in the words of the table.
TEST(Completions, QuotesAreKept) {
  const std::string zsh = completion_script(Shell::kZsh);
  EXPECT_THAT(zsh, HasSubstr("Prefix of the shard'\\''s socket"));
  EXPECT_THAT(completion_script(Shell::kFish), HasSubstr("Prefix of the shard\\'s socket"));
  for (const Binary binary : kBinaries) {
    const std::string man = man_page(binary);
    EXPECT_THAT(man, Not(HasSubstr("\n'")));
    EXPECT_THAT(man, HasSubstr(".SH NAME\n"));
  }
}

}  // namespace
}  // namespace coxswain::options
