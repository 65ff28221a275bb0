// Tokenizer::load: which file of a model folder is read, and by which reader.

#include <algorithm>
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
    return Status(
        Code::kNotFound, ErrorKind::kNotFound, path.filename().string() + " cannot be opened");
  if (size > kFileBytesMax)
    return invalid_argument("larger than " + std::to_string(kFileBytesMax) + " bytes");
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    return Status(Code::kDataLoss, "cannot be read");
  return text;
}

// What can be read in a folder, in the order of the reference.
Result<fs::path> choose_file(const fs::path& folder) {
  for (const std::string_view name :
       {"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"}) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  std::error_code error;
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".tiktoken" || extension == ".gguf") others.push_back(entry.path());
  }
  if (!others.empty()) return *std::min_element(others.begin(), others.end());
  return Status(Code::kNotFound,
                ErrorKind::kNotFound,
                folder.string() +
                    ": no tokenizer (tokenizer.json, tokenizer.model, vocab.json with merges.txt, "
                    "vocab.txt, *.tiktoken, *.gguf)");
}

// Lines of a rank file are printable ASCII; a SentencePiece model starts with the tag of a message.
bool looks_like_ranks(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, std::min<std::size_t>(bytes.find('\n'), 4096));
  return line.find(' ') != std::string_view::npos &&
         std::all_of(
             line.begin(), line.end(), [](char c) { return (c >= 0x20 && c < 0x7F) || c == '\r'; });
}

struct Source {
  fs::path file;
  bool is_folder = false;
  json::Value config;  // tokenizer_config.json; null if there is none
};

Result<TokenizerParts> read_gguf_file(const fs::path& path) {
  COXSWAIN_ASSIGN_OR_RETURN(const gguf::Header header, gguf::Header::read(path));
  return read_gguf_vocabulary(header, GgufTokens::kWholeIfThere);
}

Result<TokenizerParts> read_parts(const Source& source, const LoadOptions& options) {
  const fs::path& path = source.file;
  if (path.extension() == ".gguf") return read_gguf_file(path);
  COXSWAIN_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  if (text.starts_with("GGUF")) return read_gguf_file(path);
  if (path.filename() == "vocab.json") {
    COXSWAIN_ASSIGN_OR_RETURN(const std::string merges,
                              read_file(path.parent_path() / "merges.txt"));
    return read_vocab_and_merges(text, merges, source.config);
  }
  if (path.extension() == ".json") return read_tokenizer_json(text);
  if (path.extension() == ".txt") return read_vocab_txt(text, source.config);
  if (path.extension() == ".tiktoken" || looks_like_ranks(text))
    return read_tiktoken(text, options.split_patterns);
  return read_sentencepiece(
      text, source.is_folder, source.is_folder ? source.config : json::Value());
}

Result<json::Value> read_config(const fs::path& path) {
  constexpr std::size_t kConfigBytesMax = std::size_t{64} << 20;
  return json::parse_file(path.string(), kConfigBytesMax);
}

Status apply_config(const fs::path& path, const json::Value& config, TokenizerParts& parts) {
  const Status applied = apply_tokenizer_config(config, parts);
  return applied.ok() ? applied : applied.with_context(path.string());
}

}  // namespace

Result<TokenizerParts> load_parts(const fs::path& path, const LoadOptions& options) {
  std::error_code error;
  Source source;
  source.is_folder = fs::is_directory(path, error);
  source.file = path;
  fs::path config_path = options.tokenizer_config_path;
  if (source.is_folder) {
    COXSWAIN_ASSIGN_OR_RETURN(source.file, choose_file(path));
    if (config_path.empty() && fs::is_regular_file(path / "tokenizer_config.json"))
      config_path = path / "tokenizer_config.json";
  }
  if (!config_path.empty()) {
    COXSWAIN_ASSIGN_OR_RETURN(source.config, read_config(config_path));
  }
  auto read = read_parts(source, options);
  if (!read.ok()) return read.status().with_context(source.file.string());
  TokenizerParts parts = std::move(read).value();
  const fs::path map_path = path / "special_tokens_map.json";
  if (source.is_folder && fs::is_regular_file(map_path)) {
    COXSWAIN_ASSIGN_OR_RETURN(const json::Value map, read_config(map_path));
    COXSWAIN_RETURN_IF_ERROR(apply_config(map_path, map, parts));
  }
  if (!config_path.empty())
    COXSWAIN_RETURN_IF_ERROR(apply_config(config_path, source.config, parts));
  parts.decodes_normalized_names = options.decodes_normalized_names;
  return parts;
}

Result<std::shared_ptr<const Tokenizer>> finish_parts(TokenizerParts parts,
                                                      const std::string& file) {
  const Status prepared = parts.added.prepare(parts.normalizer.get());
  if (!prepared.ok()) return prepared.with_context(file);
  return std::shared_ptr<const Tokenizer>(std::make_shared<PipelineTokenizer>(std::move(parts)));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const fs::path& path,
                                                         const LoadOptions& options) {
  COXSWAIN_ASSIGN_OR_RETURN(TokenizerParts parts, load_parts(path, options));
  return finish_parts(std::move(parts), path.string());
}

}  // namespace coxswain::tokenizer
