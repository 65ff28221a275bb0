#include "serve/text_files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace coxswain::serve {

std::optional<StartFailure> check_text_files(const options::OptionValues& values) {
  const std::string path = values.get<"tokenizer-config-path">().value_or("");
  if (path.empty()) return std::nullopt;
  std::string wrong;
  if (access(path.c_str(), R_OK) != 0) {
    wrong = std::string(" cannot be read: ") + std::strerror(errno);
  } else if (std::error_code error; std::filesystem::is_directory(path, error)) {
    wrong = " is a folder, not a file";
  }
  if (wrong.empty()) return std::nullopt;
  return StartFailure{"ArgumentValidation",
                      "`--tokenizer-config-path` " + path + wrong,
                      "Correct that option, or leave it out for the model's own file.",
                      kExitUsage};
}

}  // namespace coxswain::serve
