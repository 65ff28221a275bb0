#include "serve/text_files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>

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

}  // namespace

std::optional<StartFailure> check_text_files(const options::OptionValues& values) {
  return check_file("--tokenizer-config-path",
                    values.get<"tokenizer-config-path">().value_or(""),
                    "Correct that option, or leave it out for the model's own file.");
}

std::optional<StartFailure> check_front_files(const options::OptionValues& values) {
  return check_file(
      "--api-keys-path", values.get<"api-keys-path">().value_or(""), "Correct that option.");
}

}  // namespace coxswain::serve
