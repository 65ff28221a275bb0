#include "gguf/file_names.h"

#include <string>

namespace coxswain::gguf {
namespace {

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

}  // namespace

bool is_model_name(std::string_view name) {
  return name.ends_with(".gguf") && !name.starts_with("mmproj");
}

bool is_later_part(std::string_view name) {
  const std::size_t of = name.rfind("-of-");
  return of != std::string_view::npos && of >= 6 && name[of - 6] == '-' &&
         name.substr(of - 5, 5) != "00001";
}

bool has_word(std::string_view name, std::string_view word) {
  const std::string in = upper(name);
  const std::string wanted = upper(word);
  const auto belongs = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t at = in.find(wanted); at != std::string::npos; at = in.find(wanted, at + 1)) {
    const std::size_t end = at + wanted.size();
    if ((at == 0 || !belongs(in[at - 1])) && (end == in.size() || !belongs(in[end]))) return true;
  }
  return false;
}

}  // namespace coxswain::gguf
