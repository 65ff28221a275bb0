#include "hub/repo_files.h"

#include <algorithm>
#include <array>
#include <set>

#include "gguf/file_names.h"
#include "json/json.h"

namespace coxswain::hub {
namespace {

constexpr std::size_t kIdCharsMax = 200;
constexpr std::size_t kRevisionCharsMax = 256;
constexpr std::size_t kNameBytesMax = 512;
// A file system's 255 less what is added while a file is made.
constexpr std::size_t kPartBytesMax = 200;
constexpr std::size_t kFilesMax = 20'000;
constexpr std::uint64_t kSizeBytesMax = std::uint64_t{1} << 44;

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_safe_name(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax) return false;
  const auto harms = [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f' || c == '\\';
  };
  if (std::ranges::any_of(name, harms)) return false;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part.empty() || part == "." || part == ".." || part.size() > kPartBytesMax) return false;
    at = end + 1;
  }
  return true;
}

Status bad_list(std::string_view member, std::string_view value) {
  std::string shown;
  for (const char c : value.substr(0, 100)) shown += c >= ' ' && c <= '~' ? c : '?';
  return {Code::kDataLoss,
          "the hub's list of files has " + std::string(member) + " `" + shown + "`"};
}

std::string text_of(const json::Value* value) {
  return value != nullptr && value->is_string() ? value->as_string() : std::string();
}

Result<RepoFile> parse_file_entry(const json::Value& entry) {
  RepoFile out{.name = text_of(entry.find("rfilename")), .digest = text_of(entry.find("blobId"))};
  if (!is_safe_name(out.name)) return bad_list("the file name", out.name);
  const json::Value* size = entry.find("size");
  std::size_t digits = 40;
  if (const json::Value* lfs = entry.find("lfs"); lfs != nullptr && lfs->is_object()) {
    out.digest = text_of(lfs->find("sha256"));
    size = lfs->find("size");
    digits = 64;
  }
  if (out.digest.size() != digits || !is_hex(out.digest)) {
    return bad_list("for " + out.name + " the digest", out.digest);
  }
  const auto bytes = size == nullptr ? std::nullopt : size->to_uint64();
  if (!bytes || *bytes > kSizeBytesMax) {
    return bad_list("for " + out.name + " the size", bytes ? std::to_string(*bytes) : "");
  }
  out.size_bytes = *bytes;
  return out;
}

bool is_side_file(std::string_view name) {
  constexpr std::array<std::string_view, 5> kEndings{
      ".json", ".jinja", ".model", ".tiktoken", "merges.txt"};
  return name == "vocab.txt" || std::ranges::any_of(kEndings, [&](std::string_view ending) {
           return name.ends_with(ending);
         });
}

bool is_pickle(std::string_view name) {
  return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") ||
         name.ends_with(".ckpt");
}

// The name without what tells the parts of a split model apart.
std::string model_of(std::string_view name) {
  const std::size_t of = name.rfind("-of-");
  return std::string(of == std::string_view::npos || of < 6 ? name : name.substr(0, of - 6));
}

Result<std::vector<RepoFile>> choose_gguf(const std::vector<RepoFile>& root,
                                          const std::string& type) {
  std::vector<RepoFile> out;
  std::set<std::string> models;
  std::string names;
  for (const RepoFile& file : root) {
    if (!gguf::is_model_name(file.name)) continue;
    if (!gguf::is_later_part(file.name)) names += (names.empty() ? "" : ", ") + file.name;
    if (!type.empty() && !gguf::has_word(file.name, type)) continue;
    out.push_back(file);
    models.insert(model_of(file.name));
  }
  if (models.size() == 1) return out;
  return Status(Code::kNotFound,
                (type.empty() ? "several GGUF models" : "not one GGUF model of type " + type) +
                    "; name one as org/name:TYPE, such as org/name:Q4_K_M. There is: " + names);
}

}  // namespace

Status check_repo_id(std::string_view id) {
  const std::size_t slash = id.find('/');
  const auto is_name = [](std::string_view name) {
    return !name.empty() && name.front() != '.' && name.front() != '-' &&
           name.find("..") == std::string_view::npos && name.find("--") == std::string_view::npos &&
           std::ranges::all_of(name, is_word_char);
  };
  const bool has_org = slash != std::string_view::npos;
  if (id.size() <= kIdCharsMax && is_name(id.substr(0, slash)) &&
      (!has_org || is_name(id.substr(slash + 1)))) {
    return {};
  }
  return invalid_argument("a model of the hub must be named as org/name, got `" + std::string(id) +
                          "`");
}

Status check_revision(std::string_view revision) {
  const bool is_good =
      revision.size() <= kRevisionCharsMax && is_safe_name(revision) &&
      revision.find("..") == std::string_view::npos &&
      std::ranges::all_of(revision, [](char c) { return c == '/' || is_word_char(c); });
  if (is_good) return {};
  return invalid_argument("`--revision` must be a branch, a tag or a commit, got `" +
                          std::string(revision) + "`");
}

Result<Repo> parse_repo(std::string_view text) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value list, json::parse(text));
  Repo out{.commit = text_of(list.find("sha")), .files = {}};
  if (out.commit.size() != 40 || !is_hex(out.commit)) return bad_list("the commit", out.commit);
  const json::Value* files = list.find("siblings");
  if (files == nullptr || !files->is_array()) return bad_list("no member", "siblings");
  if (files->as_array().size() > kFilesMax) {
    return bad_list("more than " + std::to_string(kFilesMax) + " files:",
                    std::to_string(files->as_array().size()));
  }
  for (const json::Value& entry : files->as_array()) {
    COXSWAIN_ASSIGN_OR_RETURN(RepoFile file, parse_file_entry(entry));
    out.files.push_back(std::move(file));
  }
  return out;
}

Result<std::vector<RepoFile>> choose_files(const Repo& repo, const std::string& type) {
  std::vector<RepoFile> root;
  std::ranges::copy_if(repo.files, std::back_inserter(root), [](const RepoFile& file) {
    return file.name.find('/') == std::string::npos;
  });
  const auto has = [&](auto matches) {
    return std::ranges::any_of(root, [&](const RepoFile& file) { return matches(file.name); });
  };
  const auto is_weights = [](std::string_view name) { return name.ends_with(".safetensors"); };
  const auto is_twin = [](std::string_view name) { return name.starts_with("consolidated"); };
  if (type.empty() && has(is_weights)) {
    // Some repositories hold the same weights once more, in their makers' own layout.
    const bool skips = has([&](std::string_view n) { return is_weights(n) && !is_twin(n); });
    std::erase_if(root, [&](const RepoFile& file) {
      return !(is_weights(file.name) ? !skips || !is_twin(file.name) : is_side_file(file.name));
    });
    return root;
  }
  if (has(gguf::is_model_name)) return choose_gguf(root, type);
  if (!type.empty()) return Status(Code::kNotFound, "no GGUF file");
  if (!has(is_pickle)) return Status(Code::kNotFound, "no *.safetensors and no *.gguf file");
  return Status(Code::kNotFound,
                "pickle files only, which can run code, so they are never read. Look for a "
                "safetensors or GGUF version of the model, or convert it and give its folder");
}

}  // namespace coxswain::hub
