#include "chat/template_set.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

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

Result<TemplateSet> TemplateSet::load(const std::string& model_dir,
                                      const std::string& override_path,
                                      const RenderLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(auto templates, load_templates(model_dir, override_path));
  return compile(std::move(templates), limits);
}

Result<TemplateSet> TemplateSet::compile(std::vector<NamedTemplate> templates,
                                         const RenderLimits& limits) {
  TemplateSet out;
  for (const NamedTemplate& entry : templates) {
    auto compiled = ChatTemplate::compile(entry.source, limits);
    if (!compiled.ok()) return compiled.status().with_context("chat template `" + entry.name + "`");
    out.compiled_.push_back(std::move(compiled).value());
  }
  out.templates_ = std::move(templates);
  return out;
}

const NamedTemplate* TemplateSet::find(std::string_view name) const {
  const auto it = std::ranges::find(templates_, name, &NamedTemplate::name);
  return it == templates_.end() ? nullptr : &*it;
}

Result<const NamedTemplate*> TemplateSet::choose(const RenderInput& input) const {
  const json::Value* asked = input.extra.find("chat_template");
  const bool is_named = asked != nullptr && asked->is_string() && !asked->as_string().empty();
  const NamedTemplate* chosen = nullptr;
  if (is_named) {
    chosen = find(asked->as_string());
  } else {
    if (!input.tools.is_null()) chosen = find("tool_use");
    if (chosen == nullptr) {
      chosen = find("default");
      const bool reads_documents =
          chosen != nullptr && chosen->source.find("documents") != std::string::npos;
      const NamedTemplate* rag = find("rag");
      if (!input.documents.is_null() && !reads_documents && rag != nullptr) chosen = rag;
    }
  }
  if (chosen != nullptr) return chosen;
  std::string names;
  for (const NamedTemplate& entry : templates_) names += (names.empty() ? "" : ", ") + entry.name;
  return Status(Code::kInvalidArgument,
                ErrorKind::kTemplateError,
                "the model has no chat template named \"" +
                    (is_named ? asked->as_string().substr(0, 64) : "default") +
                    "\"; there are: " + (names.empty() ? "none" : names));
}

TemplateSet::ForTools TemplateSet::for_tools() const {
  const NamedTemplate* chosen = find("tool_use");
  if (chosen == nullptr) chosen = find("default");
  if (chosen == nullptr) return {};
  const auto index = static_cast<std::size_t>(chosen - templates_.data());
  return {chosen->source, compiled_[index].mentions("tools")};
}

Result<Rendered> TemplateSet::render(const RenderInput& input) const {
  COXSWAIN_ASSIGN_OR_RETURN(const NamedTemplate* chosen, choose(input));
  return compiled_[static_cast<std::size_t>(chosen - templates_.data())].render(input);
}

}  // namespace coxswain::chat
