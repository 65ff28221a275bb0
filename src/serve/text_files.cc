#include "serve/text_files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "security/api_keys.h"
#include "security/tls.h"

namespace coxswain::serve {
namespace {

std::optional<StartFailure> check_file(const std::string& option,
                                       const std::string& path,
                                       const std::string& cure) {
  if (path.empty()) return std::nullopt;
  std::string wrong;
  if (access(path.c_str(), R_OK) != 0) {
    wrong = std::string(" cannot be read: ") + std::strerror(errno);
  } else if (std::error_code error; std::filesystem::is_directory(path, error)) {
    wrong = " is a folder, not a file";
  }
  if (wrong.empty()) return std::nullopt;
  return StartFailure{"ArgumentValidation", "`" + option + "` " + path + wrong, cure, kExitUsage};
}

// With the code that reads them in the router, which starts when the model has been loaded.
std::optional<StartFailure> check_contents(const options::OptionValues& values,
                                           const security::TlsFiles& tls) {
  Status read;
  if (const auto path = values.get<"api-keys-path">(); path && !path->empty()) {
    const security::ApiKey own{.name = security::kOwnKeyName,
                               .key = values.get<"api-key">().value_or("")};
    read = security::read_api_keys(*path, own.key.empty() ? nullptr : &own)
               .status()
               .with_context("`--api-keys-path`");
  }
  if (read.ok() && !tls.certificate.empty()) read = security::TlsIdentity::load(tls).status();
  if (read.ok()) return std::nullopt;
  return StartFailure{"ArgumentValidation", read.message(), "Correct that file.", kExitUsage};
}

}  // namespace

std::optional<StartFailure> check_text_files(const options::OptionValues& values) {
  return check_file("--tokenizer-config-path",
                    values.get<"tokenizer-config-path">().value_or(""),
                    "Correct that option, or leave it out for the model's own file.");
}

std::optional<StartFailure> check_security_files(const options::OptionValues& values) {
  const std::string cert = values.get<"tls-cert-path">().value_or("");
  const std::string key = values.get<"tls-key-path">().value_or("");
  const std::string client_ca = values.get<"tls-client-ca-path">().value_or("");
  const char* missing = cert.empty() ? "`tls_cert_path`" : "`tls_key_path`";
  if (cert.empty() != key.empty() || (cert.empty() && !client_ca.empty())) {
    return StartFailure{"ArgumentValidation",
                        std::string(missing) + " must be set, too, for TLS",
                        "Name both --tls-cert-path and --tls-key-path.",
                        kExitUsage};
  }
  const std::pair<const char*, std::string> files[] = {
      {"--api-keys-path", values.get<"api-keys-path">().value_or("")},
      {"--tls-cert-path", cert},
      {"--tls-key-path", key},
      {"--tls-client-ca-path", client_ca}};
  for (const auto& [option, path] : files) {
    if (auto failure = check_file(option, path, "Correct that option.")) return failure;
  }
  return check_contents(values, {.certificate = cert, .key = key, .client_ca = client_ca});
}

}  // namespace coxswain::serve
