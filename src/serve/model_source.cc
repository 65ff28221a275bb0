#include "serve/model_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "gguf/file_names.h"
#include "json/json.h"

namespace coxswain::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGguf = ".gguf";
constexpr const char* kFolderCure =
    "Give a GGUF file, or the folder that holds config.json, tokenizer.json and *.safetensors; "
    "org/name is one of the hub.";

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

bool is_hub_entry(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder / "snapshots", error) && !is_model(folder);
}

// The GGUF models of a folder, sorted: of a split one the first file.
std::vector<std::string> gguf_models(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (gguf::is_model_name(name) && !gguf::is_later_part(name)) out.push_back(name);
  }
  std::ranges::sort(out);
  return out;
}

// The one GGUF model of the folder, or of several the one whose name has `type`; the folder itself if that is not one.
ModelSource with_gguf(ModelSource source, const std::string& type) {
  if (type.empty() && is_model(source.folder)) return source;
  std::vector<std::string> names = gguf_models(source.folder);
  if (!type.empty())
    std::erase_if(names, [&](const std::string& name) { return !gguf::has_word(name, type); });
  if (names.size() == 1) source.folder = (fs::path(source.folder) / names.front()).string();
  return source;
}

// A name that stays below the folder it is joined to.
bool stays_below(const fs::path& name) {
  return !name.empty() && name.is_relative() && std::ranges::find(name, "..") == name.end();
}

// The snapshot of the entry that the revision names; one that does not exist if none does.
ModelSource snapshot_of(const fs::path& entry, const std::string& model_id, const HubCache& hub) {
  const std::string revision = hub.revision.value_or("main");
  std::string commit = revision;
  if (stays_below(revision)) {
    std::ifstream ref(entry / "refs" / revision);
    std::string word;
    if (ref >> word && stays_below(word)) commit = word;
  }
  return {.folder = (entry / "snapshots" / commit).string(),
          .name = model_id,
          .hub_entry = entry.string()};
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// The names in a folder, sorted.
std::string listed(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  // Not by a range: its increment throws.
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return joined(names);
}

// The first file of the folder with one of the extensions; empty if there is none.
std::string file_with(const fs::path& folder, std::initializer_list<std::string_view> extensions) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string extension = entry->path().extension().string();
    if (std::ranges::find(extensions, extension) != extensions.end())
      return entry->path().filename().string();
  }
  return {};
}

std::string names_that_come_along(const std::vector<std::string>& bundled) {
  std::string out;
  for (const std::string& name : bundled) {
    out += out.empty() ? " Models that come along: " : ", ";
    out += name;
  }
  return out;
}

Status no_folder(const ModelSource& model,
                 const std::vector<std::string>& bundled,
                 std::string& cure) {
  std::error_code error;
  const std::string& folder = model.folder;
  if (model.has_revision()) {
    cure = "Finish the download, or name one of these with --revision: " +
           listed(fs::path(model.hub_entry) / "refs");
    return {Code::kNotFound,
            model.hub_entry + " has no snapshot " + fs::path(folder).filename().string()};
  }
  if (fs::exists(folder, error)) {
    cure = kFolderCure;
    return {Code::kNotFound, folder + " is a file, not the folder of a model"};
  }
  cure = kFolderCure + names_that_come_along(bundled);
  const std::size_t colon = folder.rfind(':');
  if (colon != std::string::npos && fs::is_directory(folder.substr(0, colon), error)) {
    const std::string before = folder.substr(0, colon);
    cure = "Its GGUF files: " + joined(gguf_models(before));
    return {Code::kNotFound, before + " has not one GGUF file of type " + folder.substr(colon + 1)};
  }
  return {Code::kNotFound, "no folder named " + folder};
}

Status no_weights(const std::string& folder, std::string& cure) {
  const std::string pickle = file_with(folder, {".bin", ".pt", ".pth", ".ckpt"});
  const std::vector<std::string> ggufs = gguf_models(folder);
  cure = "Finish the download, or convert the weights to safetensors.";
  if (!ggufs.empty()) {
    cure = "Name one of its GGUF files: " + joined(ggufs);
  } else if (!pickle.empty()) {
    cure = "Pickle files such as " + pickle +
           " can run code, so they are never read. Convert them: python3 -c 'from transformers "
           "import AutoModelForCausalLM as M; M.from_pretrained(\"" +
           folder + "\").save_pretrained(\"" + folder + "\")'";
  }
  return {Code::kNotFound, folder + " has no *.safetensors file"};
}

// `errno` says why not.
bool may(const std::string& path, int mode) {
  return faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0;
}

Status unreadable(const std::string& path, std::string& cure) {
  cure = "Make it readable for the user that starts this program.";
  return {Code::kNotFound, path + " cannot be read: " + std::strerror(errno)};
}

}  // namespace

namespace {

ModelSource find_folder(const std::string& model_id,
                        const std::string& program_folder,
                        const HubCache& hub) {
  std::error_code error;
  ModelSource as_given{.folder = model_id, .name = model_id};
  if (fs::exists(model_id, error)) {
    return is_hub_entry(model_id) ? snapshot_of(model_id, model_id, hub) : as_given;
  }
  if (is_plain_name(model_id)) {
    for (const fs::path& bundle : bundle_folders(program_folder)) {
      if (is_model(bundle / model_id))
        return {.folder = (bundle / model_id).string(), .name = model_id};
    }
  }
  const std::size_t slash = model_id.find('/');
  const bool is_hub_name = stays_below(model_id) && slash == model_id.rfind('/');
  if (hub.folder.empty() || !is_hub_name) return as_given;
  std::string name = "models--" + model_id;
  if (slash != std::string::npos) name.replace(name.find('/'), 1, "--");
  const fs::path entry = fs::path(hub.folder) / name;
  return is_hub_entry(entry) ? snapshot_of(entry, model_id, hub) : as_given;
}

// What the config.json of heads says that they are for; none if the folder holds no heads. Whoever loads them says what
// is wrong with that file.
std::optional<std::string> base_of_heads(const std::string& folder) {
  constexpr std::size_t kBytesMax = std::size_t{16} << 20;
  const auto config = json::parse_file((fs::path(folder) / "config.json").string(), kBytesMax);
  if (!config.ok() || !config->is_object()) return std::nullopt;
  const json::Value* type = config->find("model_type");
  const bool is_mlp = type != nullptr && type->is_string() && type->as_string() == "mlp_speculator";
  if (!is_mlp && config->find("medusa_num_heads") == nullptr) return std::nullopt;
  const json::Value* base = config->find("base_model_name_or_path");
  return base != nullptr && base->is_string() ? base->as_string() : std::string();
}

}  // namespace

std::string hub_cache_folder(const std::string& hub_cache_option,
                             const std::string& hf_hub_cache,
                             const std::string& hf_home) {
  const auto variable = [](const char* name) -> std::string {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
  };
  if (!hub_cache_option.empty()) return hub_cache_option;
  if (!hf_hub_cache.empty()) return hf_hub_cache;
  if (!hf_home.empty()) return hf_home + "/hub";
  const std::string caches = variable("XDG_CACHE_HOME");
  if (!caches.empty()) return caches + "/huggingface/hub";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/huggingface/hub";
}

ModelSource find_model(const std::string& model_id,
                       const std::string& program_folder,
                       const HubCache& hub) {
  std::error_code error;
  ModelSource whole = find_folder(model_id, program_folder, hub);
  if (fs::is_directory(whole.folder, error)) return with_gguf(whole, "");
  const std::size_t colon = model_id.rfind(':');
  if (fs::exists(whole.folder, error) || colon == std::string::npos) return whole;
  const ModelSource before = find_folder(model_id.substr(0, colon), program_folder, hub);
  ModelSource chosen = with_gguf(before, model_id.substr(colon + 1));
  if (chosen.folder == before.folder) return whole;
  chosen.name = model_id;
  return chosen;
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

Status check_model_folder(const ModelSource& model,
                          const std::vector<std::string>& bundled,
                          std::string& cure) {
  std::error_code error;
  const std::string& folder = model.folder;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::none) {
    errno = error.value();
    return unreadable(folder, cure);
  }
  if (status.type() == fs::file_type::regular && folder.ends_with(kGguf))
    return may(folder, R_OK) ? Status() : unreadable(folder, cure);
  if (status.type() != fs::file_type::directory) return no_folder(model, bundled, cure);
  if (!may(folder, R_OK | X_OK)) return unreadable(folder, cure);
  const std::string config = (fs::path(folder) / "config.json").string();
  if (!fs::exists(config, error)) {
    cure = "Point --model-id at the folder of one model, as it was downloaded.";
    if (std::ranges::find(bundled, model.name) != bundled.end())
      cure += " For the model " + model.name + " that comes along, start in another folder.";
    if (const auto names = gguf_models(folder); !names.empty())
      cure = "Name one of its GGUF files, or FOLDER:TYPE such as " + folder +
             ":Q4_K_M: " + joined(names);
    return {Code::kNotFound, folder + " has no config.json"};
  }
  if (!may(config, R_OK)) return unreadable(config, cure);
  if (file_with(folder, {".safetensors"}).empty()) return no_weights(folder, cure);
  return {};
}

Result<std::string> find_guesser(const std::string& speculative_model,
                                 const std::string& program_folder,
                                 const HubCache& hub,
                                 ModelSource& model,
                                 std::string& cure) {
  const std::vector<std::string> bundled = bundled_models(program_folder);
  const std::optional<std::string> base = base_of_heads(model.folder);
  if (base) {
    if (!speculative_model.empty()) {
      cure = "Leave out --speculative-model, or serve the model itself.";
      return invalid_argument("`--speculative-model` beside " + model.folder +
                              ", which holds heads that guess tokens");
    }
    std::error_code error;
    const fs::path beside = (fs::path(model.folder) / *base).lexically_normal();
    ModelSource found = fs::exists(beside, error)
                            ? ModelSource{.folder = beside.string(), .name = {}}
                            : find_model(*base, program_folder, {.folder = hub.folder});
    found.name = model.name;
    COXSWAIN_RETURN_IF_ERROR(check_model_folder(found, bundled, cure)
                                 .with_context("base_model_name_or_path of " + model.folder));
    return std::exchange(model, std::move(found)).folder;
  }
  if (speculative_model.empty()) return std::string();
  ModelSource guesser = find_model(speculative_model, program_folder, {.folder = hub.folder});
  COXSWAIN_RETURN_IF_ERROR(
      check_model_folder(guesser, bundled, cure).with_context("`--speculative-model`"));
  return std::move(guesser.folder);
}

std::string program_folder() {
  std::error_code error;
  const auto path = fs::read_symlink("/proc/self/exe", error);
  return error ? "." : path.parent_path().string();
}

}  // namespace coxswain::serve
