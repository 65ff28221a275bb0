#include "serve/model_source.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

namespace coxswain::serve {
namespace {

namespace fs = std::filesystem;

bool is_model(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.json", error);
}

std::array<fs::path, 2> bundle_folders(const std::string& program_folder) {
  const fs::path bin = fs::path(program_folder).lexically_normal();
  return {bin.parent_path() / "share" / "coxswain" / "models",
          bin.parent_path().parent_path().parent_path() / "models"};
}

bool is_plain_name(const std::string& model_id) {
  return !model_id.empty() && model_id.front() != '.' && model_id.find('/') == std::string::npos;
}

}  // namespace

ModelSource find_model(const std::string& model_id, const std::string& program_folder) {
  std::error_code error;
  if (!is_plain_name(model_id) || fs::exists(model_id, error)) return {model_id, model_id};
  for (const fs::path& bundle : bundle_folders(program_folder)) {
    if (is_model(bundle / model_id)) return {(bundle / model_id).string(), model_id};
  }
  return {model_id, model_id};
}

std::vector<std::string> bundled_models(const std::string& program_folder) {
  std::vector<std::string> names;
  for (const fs::path& bundle : bundle_folders(program_folder)) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(bundle, error)) {
      if (is_model(entry.path())) names.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace coxswain::serve
