#include "manager/tensor_form.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace coxswain::manager {
namespace {

std::string_view text_of(Shape shape) {
  switch (shape) {
    case Shape::kScalar:
      return "[1]";
    case Shape::kRow:
      return "[1, n]";
    case Shape::kVocab:
      return "[1, V]";
    case Shape::kWords:
      return "[1, 2, m]";
  }
  return "";
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}

bool fits(Shape wanted, std::span<const std::int64_t> shape, std::uint32_t vocab_size) {
  switch (wanted) {
    case Shape::kScalar:
      return (shape.size() == 1 && shape[0] == 1) ||
             (shape.size() == 2 && shape[0] == 1 && shape[1] == 1);
    case Shape::kRow:
      return shape.size() == 2 && shape[0] == 1 && shape[1] >= 0;
    case Shape::kVocab:
      return shape.size() == 2 && shape[0] == 1 && shape[1] == std::int64_t{vocab_size};
    case Shape::kWords:
      return shape.size() == 3 && shape[0] == 1 && shape[1] == 2 && shape[2] >= 0;
  }
  return false;
}

}  // namespace

Status refuse(std::string_view name, std::string_view legal, std::string_view given) {
  std::string text = "`";
  text.append(name).append("` must be ").append(legal).append(". Given: ").append(given);
  return invalid_argument(std::move(text), std::string(name));
}

Status not_honoured(std::string_view name, std::string_view why) {
  std::string text = "`";
  text.append(name).append("` is not supported: ").append(why);
  return {Code::kUnimplemented, ErrorKind::kValidation, std::move(text), std::string(name)};
}

Status check_form(const TensorForm& form, const NamedTensor& tensor, std::uint32_t vocab_size) {
  if (tensor.type != form.type || !fits(form.shape, tensor.shape, vocab_size)) {
    std::string legal = std::string(name_of(form.type)) + " " + std::string(text_of(form.shape));
    if (form.shape == Shape::kVocab) legal += " with V = " + std::to_string(vocab_size);
    return refuse(
        form.name, legal, std::string(name_of(tensor.type)) + " " + shape_text(tensor.shape));
  }
  std::uint64_t n_values = 1;
  for (const std::int64_t size : tensor.shape) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (factor != 0 && n_values > std::numeric_limits<std::uint32_t>::max() / factor)
      return refuse(form.name, "smaller than 2^32 elements", shape_text(tensor.shape));
    n_values *= factor;
  }
  const std::uint64_t n_given = tensor.bytes.size() / bytes_of(tensor.type);
  if (n_given == n_values) return {};
  return refuse(form.name,
                "as many values as its shape " + shape_text(tensor.shape) + " says, " +
                    std::to_string(n_values),
                std::to_string(n_given));
}

Result<std::vector<std::vector<TokenId>>> unpack_words(const NamedTensor& tensor) {
  const auto all = tensor.as<std::int32_t>();
  const auto ids = all.first(all.size() / 2);
  const auto ends = all.last(all.size() / 2);
  std::vector<std::vector<TokenId>> out;
  std::int32_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] == -1) {
      if (std::ranges::all_of(ends.subspan(i), [](std::int32_t end) { return end == -1; })) break;
      return refuse(
          tensor.name, "a list whose row 1 ends with its padding of -1", "-1 before an end");
    }
    if (ends[i] <= begin || static_cast<std::size_t>(ends[i]) > ids.size()) {
      return refuse(tensor.name,
                    "a list whose row 1 has the ends of the words, rising and at most " +
                        std::to_string(ids.size()),
                    std::to_string(ends[i]) + " behind " + std::to_string(begin));
    }
    out.emplace_back(ids.begin() + begin, ids.begin() + ends[i]);
    begin = ends[i];
  }
  return out;
}

}  // namespace coxswain::manager
