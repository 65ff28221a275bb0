// Tokenizer::load: which file of a model folder is read, and by which reader.

#include <fstream>
#include <system_error>
#include <utility>

#include "json/json.h"
#include "tokenizer/formats.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::tokenizer {
namespace {

namespace fs = std::filesystem;

Result<std::string> read_file(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error)
    return Status(Code::kNotFound, ErrorKind::kNotFound, path.string() + ": cannot be opened");
  if (size > kFileBytesMax)
    return invalid_argument(path.string() + ": larger than " + std::to_string(kFileBytesMax) +
                            " bytes");
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    return Status(Code::kDataLoss, path.string() + ": cannot be read");
  return text;
}

Result<fs::path> choose_file(const fs::path& folder) {
  for (const std::string_view name : {"tokenizer.json"}) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  return Status(Code::kNotFound,
                ErrorKind::kNotFound,
                folder.string() + ": no tokenizer file (tokenizer.json)");
}

Result<TokenizerParts> read_parts(const fs::path& path) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  auto parts = read_tokenizer_json(text);
  if (!parts.ok()) return parts.status().with_context(path.string());
  return parts;
}

Status apply_config_file(const fs::path& path, TokenizerParts& parts) {
  constexpr std::size_t kConfigBytesMax = std::size_t{64} << 20;
  auto config = json::parse_file(path.string(), kConfigBytesMax);
  if (!config.ok()) return config.status();
  const Status applied = apply_tokenizer_config(*config, parts);
  return applied.ok() ? applied : applied.with_context(path.string());
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const fs::path& path,
                                                         const LoadOptions& options) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  fs::path file = path;
  if (is_folder) {
    COXSWAIN_ASSIGN_OR_RETURN(file, choose_file(path));
  }
  COXSWAIN_ASSIGN_OR_RETURN(TokenizerParts parts, read_parts(file));
  if (is_folder) {
    if (fs::is_regular_file(path / "special_tokens_map.json"))
      COXSWAIN_RETURN_IF_ERROR(apply_config_file(path / "special_tokens_map.json", parts));
    if (options.tokenizer_config_path.empty() &&
        fs::is_regular_file(path / "tokenizer_config.json"))
      COXSWAIN_RETURN_IF_ERROR(apply_config_file(path / "tokenizer_config.json", parts));
  }
  if (!options.tokenizer_config_path.empty())
    COXSWAIN_RETURN_IF_ERROR(apply_config_file(options.tokenizer_config_path, parts));
  parts.decodes_normalized_names = options.decodes_normalized_names;
  const Status prepared = parts.added.prepare(parts.normalizer.get());
  if (!prepared.ok()) return prepared.with_context(file.string());
  return std::shared_ptr<const Tokenizer>(std::make_shared<PipelineTokenizer>(std::move(parts)));
}

}  // namespace coxswain::tokenizer
