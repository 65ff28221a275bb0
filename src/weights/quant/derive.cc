#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "weights/checkpoint.h"
#include "weights/quant/module.h"
#include "weights/stored_quant.h"

namespace coxswain::weights {
namespace {

using quant::Form;
using quant::Module;

constexpr std::array kForms{&quant::kGptq,
                            &quant::kAwq,
                            &quant::kMarlin,
                            &quant::kExl2,
                            &quant::kCompressedTensors,
                            &quant::kFp8,
                            &quant::kBitsandbytes,
                            &quant::kMxfp4};

const Form* find_form(StoredMethod method) {
  const auto* const found =
      std::ranges::find_if(kForms, [&](const Form* form) { return form->method == method; });
  return found == kForms.end() ? nullptr : *found;
}

// Whether `pattern` stands in `text`, `*` for anything, from its beginning or, if not `anchored`, from anywhere.
bool matches(std::string_view pattern, std::string_view text, bool begins, bool ends) {
  // Greedy matching with one point to come back to: time is at most the product of the lengths.
  std::string full(begins ? "" : "*");
  full.append(pattern).append(ends ? "" : "*");
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string::npos;
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < full.size() && full[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < full.size() && full[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < full.size() && full[p] == '*') ++p;
  return p == full.size();
}

// The regular expressions that are a text with ".*" in it. Empty for others.
std::string plain_pattern(std::string_view expression) {
  std::string out;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    const char next = i + 1 < expression.size() ? expression[i + 1] : '\0';
    if ((c == '.' && next == '*') || (c == '\\' && next == '.')) {
      out += c == '.' ? '*' : '.';
      ++i;
    } else if (std::string_view("\\*+?()[]{}|^$").find(c) != std::string_view::npos) {
      return {};
    } else {
      out += c;
    }
  }
  return out;
}

// Expressions match from the beginning, as in the reference implementation.
bool matches_expression(std::string_view expression, std::string_view module) {
  if (expression.starts_with('^')) expression.remove_prefix(1);
  const bool ends = expression.ends_with('$');
  if (ends) expression.remove_suffix(1);
  const std::string pattern = plain_pattern(expression);
  return !pattern.empty() && matches(pattern, module, true, ends);
}

// The modules of which there are parts, in order of their names.
std::map<std::string, Module> find_modules(const Form& form, const Checkpoint& checkpoint) {
  std::map<std::string, Module> out;
  for (const TensorFile& file : checkpoint.files()) {
    for (const TensorInfo& tensor : file.tensors()) {
      for (const std::string_view suffix : form.suffixes) {
        if (!tensor.name.ends_with(suffix)) continue;
        const std::string name = tensor.name.substr(0, tensor.name.size() - suffix.size());
        out.try_emplace(name, name).first->second.add(suffix, {&tensor, &file});
      }
    }
  }
  return out;
}

}  // namespace

std::string_view name_of(StoredMethod method) {
  const Form* const form = find_form(method);
  return form == nullptr ? "" : form->name;
}

bool names_module(const std::vector<std::string>& patterns, std::string_view module) {
  const std::string dotted = "." + std::string(module) + ".";
  return std::ranges::any_of(patterns, [&](std::string_view pattern) {
    if (pattern.starts_with("re:")) return matches_expression(pattern.substr(3), module);
    return !pattern.empty() && matches("." + std::string(pattern) + ".", dotted, false, false);
  });
}

Status derive_tensors(const StoredQuant& quant, Checkpoint& checkpoint) {
  const Form* const form = find_form(quant.method);
  if (form == nullptr) return internal_error("no reader of this stored form");
  std::size_t n_derived = 0;
  for (const auto& [name, module] : find_modules(*form, checkpoint)) {
    if (module.is_plain()) continue;
    COXSWAIN_ASSIGN_OR_RETURN(DerivedTensor derived, form->derive(module, quant));
    if (names_module(quant.plain_modules, name))
      return tensor_error(derived.parts.front(),
                          "is quantised, the config lists its module among those that are not");
    COXSWAIN_RETURN_IF_ERROR(checkpoint.add_derived(std::move(derived)));
    ++n_derived;
  }
  if (n_derived != 0) return {};
  return {Code::kInvalidArgument,
          checkpoint.files().front().path() + ": quant_method is " + std::string(form->name) +
              ", but no tensor ends in " + std::string(form->key)};
}

}  // namespace coxswain::weights
