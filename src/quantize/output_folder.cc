#include "quantize/output_folder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "weights/safetensors.h"

namespace coxswain::quantize {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kState = "quantize_state.json";
constexpr std::size_t kStateBytesMax = std::size_t{1} << 20;

// What stands beside weights and is no part of them.
bool is_copied(const fs::path& path) {
  constexpr std::array<std::string_view, 6> kEndings{
      ".json", ".jinja", ".model", ".txt", ".tiktoken", ".md"};
  constexpr std::array<std::string_view, 3> kMadeAnew{
      "config.json", "quantize_config.json", "quant_config.json"};
  const std::string name = path.filename();
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  return std::ranges::any_of(kEndings, ends) &&
         std::ranges::find(kMadeAnew, name) == kMadeAnew.end() && !name.ends_with(".index.json");
}

Status unwritten(const std::string& path, const std::error_code& error) {
  return {Code::kResourceExhausted, path + ": cannot be written: " + error.message()};
}

}  // namespace

Result<OutputFolder> OutputFolder::open(const std::string& path,
                                        const std::string& identity,
                                        std::size_t n_files) {
  OutputFolder out;
  out.path_ = path;
  out.n_files_ = n_files;
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return unwritten(path, error);
  const std::string state = path + "/" + std::string(kState);
  if (fs::exists(state, error)) {
    COXSWAIN_ASSIGN_OR_RETURN(const json::Value value, json::parse_file(state, kStateBytesMax));
    const json::Value* const of = value.find("identity");
    if (of != nullptr && of->is_string() && of->as_string() == identity) return out;
    return Status(Code::kFailedPrecondition,
                  path +
                      " holds an unfinished run of another model or with other options; go on "
                      "with these, or remove it");
  }
  if (!fs::is_empty(path, error) || error)
    return Status(Code::kFailedPrecondition, path + " is not empty; name a new folder");
  json::Object fresh;
  fresh.set("identity", identity);
  COXSWAIN_RETURN_IF_ERROR(
      out.write_text(std::string(kState), json::write(json::Value(std::move(fresh)))));
  return out;
}

std::string OutputFolder::file_name(std::size_t index) const {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "model-%05zu-of-%05zu.safetensors", index + 1, n_files_);
  return out.data();
}

bool OutputFolder::is_finished(std::size_t index) const {
  return weights::open_safetensors(file_path(index)).ok();
}

Status OutputFolder::write(std::size_t index, const std::vector<OutputTensor>& tensors) const {
  std::vector<weights::TensorDeclaration> declarations;
  declarations.reserve(tensors.size());
  for (const OutputTensor& tensor : tensors) declarations.push_back(tensor.declaration);
  COXSWAIN_ASSIGN_OR_RETURN(weights::SafetensorsWriter writer,
                            weights::SafetensorsWriter::create(file_path(index), declarations));
  for (const OutputTensor& tensor : tensors) COXSWAIN_RETURN_IF_ERROR(writer.append(tensor.bytes));
  return writer.finish();
}

Status OutputFolder::write_text(const std::string& name, const std::string& text) const {
  const std::string path = path_ + "/" + name;
  COXSWAIN_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::create(path));
  COXSWAIN_RETURN_IF_ERROR(file.write(text));
  COXSWAIN_RETURN_IF_ERROR(file.commit());
  // As readable as the weights beside it.
  std::error_code error;
  using fs::perms;
  fs::permissions(
      path, perms::owner_read | perms::owner_write | perms::group_read | perms::others_read, error);
  return error ? unwritten(path, error) : Status();
}

Status OutputFolder::write_index() const {
  json::Object map;
  std::uint64_t n_bytes = 0;
  for (std::size_t i = 0; i < n_files_; ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(const weights::TensorFile file,
                              weights::open_safetensors(file_path(i)));
    for (const weights::TensorInfo& tensor : file.tensors()) {
      map.set(tensor.name, file_name(i));
      n_bytes += tensor.n_bytes();
    }
  }
  json::Object metadata;
  metadata.set("total_size", json::Value::unsigned_integer(n_bytes));
  json::Object out;
  out.set("metadata", std::move(metadata));
  out.set("weight_map", std::move(map));
  return write_text("model.safetensors.index.json", json::write(json::Value(std::move(out))));
}

Status OutputFolder::copy_others(const std::string& model_dir) const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(model_dir, error)) {
    if (!entry.is_regular_file(error) || !is_copied(entry.path())) continue;
    const fs::path to = fs::path(path_) / entry.path().filename();
    fs::copy_file(entry.path(), to, fs::copy_options::overwrite_existing, error);
    if (error) return unwritten(to, error);
    fs::permissions(to, fs::perms::owner_write, fs::perm_options::add, error);
  }
  return error ? unwritten(path_, error) : Status();
}

Status OutputFolder::finish(const std::string& model_dir,
                            json::Value config,
                            json::Value quantization) const {
  COXSWAIN_RETURN_IF_ERROR(write_index());
  COXSWAIN_RETURN_IF_ERROR(copy_others(model_dir));
  const json::Value* const method = quantization.find("quant_method");
  if (method != nullptr && method->as_string() == "gptq")
    COXSWAIN_RETURN_IF_ERROR(write_text("quantize_config.json", json::write(quantization)));
  config.as_object().set("quantization_config", std::move(quantization));
  COXSWAIN_RETURN_IF_ERROR(write_text("config.json", json::write(config)));
  std::error_code error;
  fs::remove(path_ + "/" + std::string(kState), error);
  return error ? unwritten(path_, error) : Status();
}

}  // namespace coxswain::quantize
