#include "serve/text_files.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "http/test_certificates.h"

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

std::string front_cause_of(const std::vector<std::string>& options) {
  std::vector<const char*> argv{"launcher"};
  for (const std::string& option : options) argv.push_back(option.c_str());
  const auto parsed =
      options::parse(options::Binary::kLauncher, static_cast<int>(argv.size()), argv.data(), {});
  EXPECT_EQ(parsed.exit_code, std::nullopt) << parsed.output;
  const auto failure = check_security_files(parsed.values);
  if (!failure) return "";
  EXPECT_EQ(failure->exit_code, kExitUsage);
  return failure->cause;
}

TEST(TextFiles, KeysAndCertificates) {
  const base::TempFolder folder;
  folder.write("a.pem", "");
  const std::string file = folder.file("a.pem");
  const std::string none = folder.file("none.pem");
  const auto cause = front_cause_of;
  EXPECT_EQ(cause({}), "");
  EXPECT_EQ(cause({"--tls-cert-path=" + file}), "`tls_key_path` must be set, too, for TLS");
  EXPECT_EQ(cause({"--tls-key-path=" + file}), "`tls_cert_path` must be set, too, for TLS");
  EXPECT_EQ(cause({"--tls-client-ca-path=" + file}), "`tls_cert_path` must be set, too, for TLS");
  for (const char* option : {"--api-keys-path", "--tls-client-ca-path"}) {
    EXPECT_EQ(
        cause({"--tls-cert-path=" + file, "--tls-key-path=" + file, option + ("=" + none)}),
        "`" + std::string(option) + "` " + none + " cannot be read: No such file or directory");
  }
}

TEST(TextFiles, WhatStandsInKeysIsLookedAt) {
  const base::TempFolder folder;
  const std::string option = "--api-keys-path=" + folder.file("keys.json");
  const std::string place = "`--api-keys-path`: " + folder.file("keys.json") + ": ";
  folder.write("keys.json", R"([{"name":"a","key":"ka"}])");
  EXPECT_EQ(front_cause_of({option}), "");
  folder.write("keys.json", R"([{"name":"a","key":"ka"},{"name":"b","key":"ka"}])");
  EXPECT_EQ(front_cause_of({option}), place + "`[1].key` is that of `[0]`");
  folder.write("keys.json", R"([{"name":"a","key":"own"}])");
  EXPECT_EQ(front_cause_of({option, "--api-key=own"}), place + "`[0].key` is that of --api-key");
  folder.write("keys.json", "[");
  EXPECT_THAT(front_cause_of({option}), ::testing::HasSubstr("line 1"));
}

TEST(TextFiles, WhatStandsInCertificatesIsLookedAt) {
  const base::TempFolder folder;
  const http::TestCertificate mine("mine");
  const http::TestCertificate other("other");
  mine.write(folder.file("cert.pem"), folder.file("key.pem"));
  other.write(folder.file("other.pem"), folder.file("other_key.pem"));
  folder.write("empty.pem", "");
  const std::string cert = "--tls-cert-path=" + folder.file("cert.pem");
  const std::string key = "--tls-key-path=" + folder.file("key.pem");
  EXPECT_EQ(front_cause_of({cert, key, "--tls-client-ca-path=" + folder.file("other.pem")}), "");
  const auto refused = [&](const std::vector<std::string>& options, const std::string& at) {
    EXPECT_THAT(front_cause_of(options), ::testing::StartsWith(at));
  };
  refused({cert, "--tls-key-path=" + folder.file("other_key.pem")},
          "`--tls-key-path` " + folder.file("other_key.pem") + ": ");
  refused({"--tls-cert-path=" + folder.file("empty.pem"), key},
          "`--tls-cert-path` " + folder.file("empty.pem") + ": ");
  refused({cert, key, "--tls-client-ca-path=" + folder.file("empty.pem")},
          "`--tls-client-ca-path` " + folder.file("empty.pem") + ": ");
}

}  // namespace
}  // namespace coxswain::serve
