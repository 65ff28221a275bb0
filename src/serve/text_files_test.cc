#include "serve/text_files.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

std::string cause_of(const std::string& path) {
  const std::string option = "--tokenizer-config-path=" + path;
  const char* argv[] = {"launcher", option.c_str()};
  const auto parsed = options::parse(options::Binary::kLauncher, 2, argv, {});
  EXPECT_EQ(parsed.exit_code, std::nullopt) << parsed.output;
  const auto failure = check_text_files(parsed.values);
  if (!failure) return "";
  EXPECT_EQ(failure->exit_code, kExitUsage);
  EXPECT_THAT(failure->cure, ::testing::HasSubstr("leave it out"));
  return failure->cause;
}

TEST(TextFiles, TheOptionNamesAFileThatCanBeRead) {
  const base::TempFolder folder;
  folder.write("own.json", "{}");
  EXPECT_EQ(cause_of(folder.file("own.json")), "");
  EXPECT_EQ(cause_of(folder.path()),
            "`--tokenizer-config-path` " + folder.path() + " is a folder, not a file");
  EXPECT_EQ(cause_of(folder.file("none.json")),
            "`--tokenizer-config-path` " + folder.file("none.json") +
                " cannot be read: No such file or directory");
}

TEST(TextFiles, KeysAndCertificates) {
  const base::TempFolder folder;
  folder.write("a.pem", "");
  const std::string file = folder.file("a.pem");
  const std::string none = folder.file("none.pem");
  const auto cause = [](const std::vector<std::string>& options) {
    std::vector<const char*> argv{"launcher"};
    for (const std::string& option : options) argv.push_back(option.c_str());
    const auto parsed =
        options::parse(options::Binary::kLauncher, static_cast<int>(argv.size()), argv.data(), {});
    EXPECT_EQ(parsed.exit_code, std::nullopt) << parsed.output;
    const auto failure = check_front_files(parsed.values);
    return failure ? failure->cause : "";
  };
  EXPECT_EQ(cause({}), "");
  EXPECT_EQ(cause({"--tls-cert-path=" + file, "--tls-key-path=" + file}), "");
  EXPECT_EQ(cause({"--tls-cert-path=" + file}), "`tls_key_path` must be set, too, for TLS");
  EXPECT_EQ(cause({"--tls-key-path=" + file}), "`tls_cert_path` must be set, too, for TLS");
  EXPECT_EQ(cause({"--tls-client-ca-path=" + file}), "`tls_cert_path` must be set, too, for TLS");
  for (const char* option : {"--api-keys-path", "--tls-client-ca-path"}) {
    EXPECT_EQ(
        cause({"--tls-cert-path=" + file, "--tls-key-path=" + file, option + ("=" + none)}),
        "`" + std::string(option) + "` " + none + " cannot be read: No such file or directory");
  }
}

}  // namespace
}  // namespace coxswain::serve
