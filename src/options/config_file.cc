#include "options/config_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "options/words.h"

namespace coxswain::options {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_comment_or_empty(std::string_view text) {
  return text.empty() || text.front() == '#';
}

std::string_view without_spaces_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

// One digit of a \xHH.
std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// What follows a backslash at the front of `rest`, which loses it.
Result<char> escaped(std::string_view& rest) {
  const char c = rest.empty() ? '\0' : rest.front();
  rest.remove_prefix(std::min<std::size_t>(rest.size(), 1));
  switch (c) {
    case '"':
    case '\\':
      return c;
    case 'n':
      return '\n';
    case 't':
      return '\t';
    default:
      break;
  }
  if (c == 'x' && rest.size() >= 2) {
    const auto high = hex_digit(rest[0]);
    const auto low = hex_digit(rest[1]);
    rest.remove_prefix(2);
    // Above 0x7F, YAML means a character and not a byte.
    if (high && low && *high < 8) return static_cast<char>(*high * 16 + *low);
  }
  return invalid_argument(R"(of escapes there are \\, \", \n, \t and \x00 to \x7f)");
}

// Of `rest`, which begins behind the first quote.
Result<std::string> quoted(std::string_view rest, char quote) {
  std::string out;
  while (!rest.empty()) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == '\\' && quote == '"') {
      COXSWAIN_ASSIGN_OR_RETURN(const char meant, escaped(rest));
      out += meant;
    } else if (c != quote) {
      out += c;
    } else if (quote == '\'' && rest.starts_with('\'')) {
      out += c;
      rest.remove_prefix(1);
    } else {
      const std::string_view behind = without_spaces_before(rest);
      const bool ends = behind.empty() || (behind.front() == '#' && behind.size() < rest.size());
      if (!ends) return invalid_argument("something follows the closing quote");
      return out;
    }
  }
  return invalid_argument("the quote is not closed on its line");
}

Result<std::string> plain(std::string_view text) {
  text = text.substr(0, text.find(" #"));
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  constexpr std::string_view kIndicators = "&*!|>%@`[]{},";
  const bool is_entry = text == "-" || text == "?" || text.starts_with("- ") ||
                        text.starts_with("? ") || text.starts_with(":");
  if (is_entry || kIndicators.find(text.front()) != std::string_view::npos ||
      text.find(": ") != std::string_view::npos || text.ends_with(':')) {
    return invalid_argument("`" + shown(text) + "` means something else in YAML; quote it");
  }
  if (text == "~" || text == "null" || text == "Null" || text == "NULL")
    return invalid_argument("a value is missing; quote `" + std::string(text) + "` if it is one");
  return std::string(text);
}

// REQUIRES: begins with what is neither a space nor a comment.
Result<std::string> scalar(std::string_view text) {
  if (text.front() == '"' || text.front() == '\'') return quoted(text.substr(1), text.front());
  return plain(text);
}

class Reader {
 public:
  explicit Reader(ConfigFile& file) : file_(file) {}

  Status line(std::string_view text) {
    ++number_;
    const std::string_view words = without_spaces_before(text);
    const bool is_odd = std::ranges::any_of(
        words, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
    if (!base::is_utf8(words)) return invalid_argument("the line is not UTF-8");
    if (is_odd) return invalid_argument("tabs and control characters are not allowed");
    if (is_comment_or_empty(words)) return {};
    const std::size_t indent = text.size() - words.size();
    if (words == "-" || words.starts_with("- ")) return item(words.substr(1), indent);
    COXSWAIN_RETURN_IF_ERROR(end_list());
    if (indent > 0) return invalid_argument("only the entries of a list may be indented");
    return name(words);
  }

  // Errors: a name is left without a value.
  Status end_list() {
    if (list_ == nullptr || !list_->texts.empty()) {
      list_ = nullptr;
      return {};
    }
    number_ = list_->line;
    return invalid_argument("a value is missing");
  }

  std::size_t number() const { return number_; }

 private:
  Status name(std::string_view words) {
    const std::size_t colon = words.find(':');
    const std::string_view name = words.substr(0, colon);
    const bool is_name =
        !name.empty() && name.front() != '-' && std::ranges::all_of(name, [](char c) {
          return is_letter_or_digit(c) || c == '-' || c == '_';
        });
    const bool has_space =
        colon + 1 == words.size() || (colon < words.size() && words[colon + 1] == ' ');
    if (!is_name || !has_space) return invalid_argument("this is no `name: value`");
    const auto [entry, is_new] = file_.entries.try_emplace(std::string(name));
    if (!is_new) {
      return invalid_argument("`" + shown(name) + "` is there already, on line " +
                              std::to_string(entry->second.line));
    }
    entry->second.line = number_;
    const std::string_view value = without_spaces_before(words.substr(colon + 1));
    if (is_comment_or_empty(value)) {
      list_ = &entry->second;
      list_->is_list = true;
      return {};
    }
    COXSWAIN_ASSIGN_OR_RETURN(std::string text, scalar(value));
    entry->second.texts.push_back(std::move(text));
    return {};
  }

  Status item(std::string_view words, std::size_t indent) {
    if (list_ == nullptr) return invalid_argument("an entry of a list follows `name:` alone");
    if (list_->texts.empty()) indent_ = indent;
    if (indent != indent_) return invalid_argument("entries of a list have the same indentation");
    const std::string_view value = without_spaces_before(words);
    if (is_comment_or_empty(value)) return invalid_argument("a value is missing");
    COXSWAIN_ASSIGN_OR_RETURN(std::string text, scalar(value));
    list_->texts.push_back(std::move(text));
    return {};
  }

  ConfigFile& file_;
  std::size_t number_ = 0;
  ConfigEntry* list_ = nullptr;  // still open
  std::size_t indent_ = 0;       // of its entries
};

}  // namespace

std::string ConfigFile::place(std::size_t line) const {
  return shown(path) + ":" + std::to_string(line);
}

Result<ConfigFile> parse_config(std::string_view text, std::string path) {
  ConfigFile file{.path = std::move(path), .entries = {}};
  Reader reader(file);
  Status status;
  while (status.ok() && !text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    status = reader.line(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (status.ok()) status = reader.end_list();
  if (!status.ok()) return invalid_argument(file.place(reader.number()) + ": " + status.message());
  return file;
}

Result<ConfigFile> read_config(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad()) return invalid_argument(shown(path) + " cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kFileBytesMax) {
    return invalid_argument(shown(path) + " must have at most " + std::to_string(kFileBytesMax) +
                            " bytes");
  }
  return parse_config(text, path);
}

std::string config_scalar(std::string_view text) {
  constexpr std::array<std::string_view, 9> kTaken{
      "y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  std::string small;
  for (const char c : text) small += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  const auto is_plain = [](char c) {
    return is_letter_or_digit(c) || c == '/' || c == '.' || c == '-' || c == '_';
  };
  const bool begins_plain = !text.empty() &&
                            (text.front() == '/' || is_letter_or_digit(text.front())) &&
                            !(text.front() >= '0' && text.front() <= '9');
  if (begins_plain && std::ranges::all_of(text, is_plain) && std::ranges::count(kTaken, small) == 0)
    return std::string(text);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (c == '"' || c == '\\') {
      out.append("\\").append(1, c);
    } else if (byte < ' ' || c == '\x7f') {
      out.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace coxswain::options
