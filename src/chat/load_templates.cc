// Where a model keeps its templates.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "chat/chat_template.h"
#include "chat/gguf_templates.h"

namespace coxswain::chat {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTemplateBytesMax = std::size_t{4} << 20;
constexpr std::size_t kConfigBytesMax = std::size_t{64} << 20;

Result<std::string> read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Status(Code::kNotFound, "cannot open " + path.string());
  const auto size = static_cast<std::streamoff>(file.tellg());
  if (size < 0 || static_cast<std::uint64_t>(size) > kTemplateBytesMax) {
    return invalid_argument(path.string() + " has " + std::to_string(size) + " bytes, more than " +
                            std::to_string(kTemplateBytesMax));
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size))
    return Status(Code::kDataLoss, "cannot read all of " + path.string());
  return text;
}

// The value of "chat_template": one string, or a list of {name, template}.
Status add_templates(const json::Value& value,
                     const std::string& path,
                     std::vector<NamedTemplate>& out) {
  if (value.is_null()) return {};
  if (value.is_string()) {
    out.push_back({"default", value.as_string()});
    return {};
  }
  if (!value.is_array())
    return invalid_argument(path + ": chat_template must be a string or a list");
  for (const json::Value& entry : value.as_array()) {
    const json::Value* name = entry.find("name");
    const json::Value* source = entry.find("template");
    if (name == nullptr || !name->is_string() || source == nullptr || !source->is_string()) {
      return invalid_argument(path +
                              ": an entry of chat_template needs the strings name and template");
    }
    out.push_back({name->as_string(), source->as_string()});
  }
  return {};
}

Status add_from_json(const fs::path& path, std::vector<NamedTemplate>& out) {
  auto document = json::parse_file(path.string(), kConfigBytesMax);
  if (!document.ok()) return document.status();
  const json::Value* value = document->find("chat_template");
  return value == nullptr ? Status() : add_templates(*value, path.string(), out);
}

// The paths in `folder` with that extension, by name; none if there is no such folder.
std::vector<fs::path> paths_in(const fs::path& folder, std::string_view extension) {
  std::error_code error;
  std::vector<fs::path> paths;
  // Unlike that of a range-for, this step does not throw; an error ends it.
  for (fs::directory_iterator entry(folder, error); entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() == extension) paths.push_back(entry->path());
  }
  std::ranges::sort(paths);
  return paths;
}

// chat_template.jinja, and one file for each further template.
Status add_from_jinja_files(const fs::path& folder, std::vector<NamedTemplate>& out) {
  std::error_code error;
  if (fs::exists(folder / "chat_template.jinja", error)) {
    COXSWAIN_ASSIGN_OR_RETURN(std::string source, read_text(folder / "chat_template.jinja"));
    out.push_back({"default", std::move(source)});
  }
  for (const fs::path& path : paths_in(folder / "additional_chat_templates", ".jinja")) {
    COXSWAIN_ASSIGN_OR_RETURN(std::string source, read_text(path));
    out.push_back({path.stem().string(), std::move(source)});
  }
  return {};
}

Result<std::vector<NamedTemplate>> load_own(const fs::path& path) {
  std::vector<NamedTemplate> out;
  if (path.extension() == ".json") {
    COXSWAIN_RETURN_IF_ERROR(add_from_json(path, out));
    return out;
  }
  COXSWAIN_ASSIGN_OR_RETURN(std::string source, read_text(path));
  out.push_back({"default", std::move(source)});
  return out;
}

const NamedTemplate* find_template(const std::vector<NamedTemplate>& templates,
                                   std::string_view name) {
  const auto it = std::ranges::find(templates, name, &NamedTemplate::name);
  return it == templates.end() ? nullptr : &*it;
}

}  // namespace

Result<std::vector<NamedTemplate>> load_templates(const std::string& model_dir,
                                                  const std::string& override_path) {
  if (!override_path.empty()) return load_own(override_path);
  const fs::path folder(model_dir);
  std::error_code error;
  if (fs::is_regular_file(folder, error)) {
    if (folder.extension() == ".gguf") return read_gguf_templates(folder);
    return std::vector<NamedTemplate>();
  }
  std::vector<NamedTemplate> out;
  COXSWAIN_RETURN_IF_ERROR(add_from_jinja_files(folder, out));
  for (const char* name :
       {"chat_template.json", "tokenizer_config.json", "processor_config.json"}) {
    if (out.empty() && fs::exists(folder / name, error))
      COXSWAIN_RETURN_IF_ERROR(add_from_json(folder / name, out));
  }
  if (out.empty()) {
    const std::vector<fs::path> models = paths_in(folder, ".gguf");
    if (!models.empty()) return read_gguf_templates(models.front());
  }
  return out;
}

const NamedTemplate* select_template(const std::vector<NamedTemplate>& templates, bool has_tools) {
  if (has_tools) {
    if (const NamedTemplate* tool_use = find_template(templates, "tool_use")) return tool_use;
  }
  return find_template(templates, "default");
}

Result<const NamedTemplate*> select_template(const std::vector<NamedTemplate>& templates,
                                             const TemplateChoice& choice) {
  const NamedTemplate* chosen = choice.name.empty() ? select_template(templates, choice.has_tools)
                                                    : find_template(templates, choice.name);
  if (choice.name.empty() && choice.has_documents &&
      (chosen == nullptr || chosen->name == "default")) {
    const bool is_read = chosen != nullptr && chosen->source.find("documents") != std::string::npos;
    const NamedTemplate* rag = find_template(templates, "rag");
    if (!is_read && rag != nullptr) chosen = rag;
  }
  if (chosen != nullptr) return chosen;
  std::string names;
  for (const NamedTemplate& entry : templates) names += (names.empty() ? "" : ", ") + entry.name;
  const std::string wanted =
      choice.name.empty() ? "default" : std::string(choice.name.substr(0, 64));
  return Status(Code::kInvalidArgument,
                ErrorKind::kTemplateError,
                "the model has no chat template named \"" + wanted +
                    "\"; there are: " + (names.empty() ? "none" : names));
}

}  // namespace coxswain::chat
