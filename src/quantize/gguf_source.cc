#include "quantize/gguf_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "chat/template_set.h"
#include "kernels/formats/widen.h"
#include "model/gguf_export.h"
#include "tokenizer/gguf_vocab_writer.h"
#include "weights/checkpoint.h"

namespace coxswain::quantize {
namespace {

std::uint32_t count_of(const gguf::Header& header, std::string_view key) {
  const auto value =
      header.number(std::string(header.text("general.architecture")) + "." + std::string(key));
  return value && *value >= 0 && *value < 0x1p32 ? static_cast<std::uint32_t>(*value) : 0;
}

// Keys that say how the file is quantised come anew; so does its alignment, which is the usual one.
bool is_copied(std::string_view key) {
  return key != "general.file_type" && key != "general.quantization_version" &&
         key != "general.alignment";
}

// ---- a folder ----

// The row of the checkpoint's matrix that stands at `row` in the file.
std::uint64_t stored_row(const model::GgufExportTensor& tensor, std::uint64_t row) {
  if (tensor.change != model::GgufChange::kInterleaved) return row;
  const std::uint64_t in_head = row % tensor.head_rows;
  return row - in_head + in_head / 2 + in_head % 2 * (tensor.head_rows / 2);
}

// Everything of a tensor that stays float32: norms, biases, what chooses experts.
Result<std::vector<float>> small_values(const weights::Checkpoint& checkpoint,
                                        const model::GgufExportTensor& tensor) {
  if (tensor.stored.empty()) return tensor.values;
  const auto at = checkpoint.find(tensor.stored.front());
  const auto type = *weights::float_type(at.tensor->type);
  std::vector<std::byte> bytes(at.tensor->n_bytes());
  COXSWAIN_RETURN_IF_ERROR(at.read(0, bytes));
  std::vector<float> values(bytes.size() / tensor::size_of(type));
  kernels::widen(bytes.data(), type, values.size(), values.data());
  if (tensor.change == model::GgufChange::kPlusOne) {
    for (float& value : values) value += 1.0F;
  }
  std::vector<float> out(values.size());
  const bool is_vector = tensor.tensor.shape.size() == 1;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = values[is_vector ? stored_row(tensor, i) : i];
  return out;
}

bool is_small(const model::GgufExportTensor& tensor, const weights::Checkpoint& checkpoint) {
  return tensor.stored.empty() || tensor.tensor.shape.size() == 1 ||
         tensor.tensor.type->name != checkpoint.find(tensor.stored.front()).tensor->type_name();
}

// Rows of one matrix, or of several one after the other.
Status read_rows(const weights::Checkpoint& checkpoint,
                 const model::GgufExportTensor& tensor,
                 std::uint64_t row,
                 std::span<std::byte> out) {
  const std::uint64_t row_bytes = tensor.tensor.row_bytes();
  const std::uint64_t rows_each = tensor.tensor.n_rows() / tensor.stored.size();
  while (!out.empty()) {
    const auto at = checkpoint.find(tensor.stored[row / rows_each]);
    const bool is_in_order = tensor.change == model::GgufChange::kNone;
    const std::uint64_t n =
        is_in_order ? std::min(out.size() / row_bytes, rows_each - row % rows_each) : 1;
    COXSWAIN_RETURN_IF_ERROR(
        at.read(stored_row(tensor, row % rows_each) * row_bytes, out.first(n * row_bytes)));
    out = out.subspan(n * row_bytes);
    row += n;
  }
  return {};
}

Result<GgufSourceTensor> folder_tensor(const std::shared_ptr<const weights::Checkpoint>& checkpoint,
                                       model::GgufExportTensor tensor) {
  GgufSourceTensor out{tensor.tensor, {}};
  if (is_small(tensor, *checkpoint)) {
    COXSWAIN_ASSIGN_OR_RETURN(std::vector<float> values, small_values(*checkpoint, tensor));
    out.read = [values = std::move(values), width = tensor.tensor.shape.back()](
                   std::uint64_t row, std::span<std::byte> to) {
      std::memcpy(to.data(), values.data() + row * width, to.size());
      return Status();
    };
  } else {
    out.read = [checkpoint, tensor = std::move(tensor)](std::uint64_t row,
                                                        std::span<std::byte> to) {
      return read_rows(*checkpoint, tensor, row, to);
    };
  }
  return out;
}

Status add_templates(const std::string& model_dir, gguf::KeyList& keys) {
  COXSWAIN_ASSIGN_OR_RETURN(const auto templates, chat::load_templates(model_dir, ""));
  for (const chat::NamedTemplate& each : templates)
    keys.add_text(
        each.name == "default" ? "tokenizer.chat_template" : "tokenizer.chat_template." + each.name,
        each.source);
  return {};
}

// What is to be told if the lists of a file do not always mean the tokens that the tokenizer makes.
Result<std::string> note_of_lists(const tokenizer::Tokenizer& own,
                                  const gguf::KeyList& keys,
                                  std::string_view text) {
  const std::string front = gguf::front_of(keys, {});
  COXSWAIN_ASSIGN_OR_RETURN(const gguf::Header header, gguf::Header::parse(front, front.size()));
  COXSWAIN_ASSIGN_OR_RETURN(const auto lists, tokenizer::tokenizer_of_lists(header));
  std::size_t n_lines = 0;
  std::size_t n_off = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    COXSWAIN_ASSIGN_OR_RETURN(const auto wanted, own.encode(line, {.wants_offsets = false}));
    COXSWAIN_ASSIGN_OR_RETURN(const auto found, lists->encode(line, {.wants_offsets = false}));
    ++n_lines;
    if (wanted.ids != found.ids) ++n_off;
  }
  if (n_off == 0) return std::string();
  return "the file's lists of tokens are not all of its tokenizer: " + std::to_string(n_off) +
         " of " + std::to_string(n_lines) +
         " lines of the texts become other tokens in programs that do not read " +
         "tokenizer.huggingface.json";
}

}  // namespace

Result<GgufSource> open_gguf_source(const std::string& path) {
  auto header = gguf::Header::read(path);
  if (!header.ok()) return header.status().with_context(path);
  if (header->number("split.count").value_or(1) > 1)
    return Status(Code::kUnimplemented,
                  path + ": models that are split over files are not quantised");
  COXSWAIN_ASSIGN_OR_RETURN(weights::TensorFile opened, weights::TensorFile::open(path));
  const auto file = std::make_shared<const weights::TensorFile>(std::move(opened));
  GgufSource out;
  out.n_layers = count_of(*header, "block_count");
  out.n_experts = count_of(*header, "expert_count");
  for (const std::string_view key : header->keys()) {
    if (is_copied(key)) out.keys.copy(key, *header->find(key));
  }
  for (const gguf::TensorInfo& info : header->tensors()) {
    GgufSourceTensor tensor{{std::string(info.name), info.type, info.shape}, {}};
    const std::uint64_t row_bytes = tensor.tensor.row_bytes();
    tensor.read = [file, begin = info.begin, row_bytes](std::uint64_t row,
                                                        std::span<std::byte> to) {
      return file->read_at(begin + row * row_bytes, to)
                 ? Status()
                 : Status(Code::kDataLoss, file->path() + ": cannot be read");
    };
    out.tensors.push_back(std::move(tensor));
  }
  return out;
}

Result<GgufSource> open_folder_source(const std::string& model_dir, std::string_view text) {
  COXSWAIN_ASSIGN_OR_RETURN(const auto own, tokenizer::Tokenizer::load(model_dir));
  const std::string name =
      std::filesystem::path(model_dir + "/.").lexically_normal().parent_path().filename();
  COXSWAIN_ASSIGN_OR_RETURN(model::GgufExport exported,
                            model::export_to_gguf(model_dir, name, own->eos_id()));
  COXSWAIN_RETURN_IF_ERROR(tokenizer::add_gguf_vocabulary(
      model_dir, exported.vocab_size, exported.end_tokens, exported.keys));
  COXSWAIN_RETURN_IF_ERROR(add_templates(model_dir, exported.keys));
  COXSWAIN_ASSIGN_OR_RETURN(weights::Checkpoint opened, weights::Checkpoint::open(model_dir));
  const auto checkpoint = std::make_shared<const weights::Checkpoint>(std::move(opened));
  GgufSource out;
  COXSWAIN_ASSIGN_OR_RETURN(out.note, note_of_lists(*own, exported.keys, text));
  out.keys = std::move(exported.keys);
  out.n_layers = exported.n_layers;
  out.n_experts = exported.n_experts;
  for (model::GgufExportTensor& each : exported.tensors) {
    COXSWAIN_ASSIGN_OR_RETURN(GgufSourceTensor tensor, folder_tensor(checkpoint, std::move(each)));
    out.tensors.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace coxswain::quantize
