#include "fleet/import/toml.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace coxswain::fleet {
namespace {

constexpr std::size_t kDepthMax = 16;

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<json::Value> document() {
    for (skip(Lines::kCross); !at_end(); skip(Lines::kCross)) {
      const Status status = peek() == '[' ? header() : pair(*table_);
      if (!status.ok()) return status;
      if (Status end = end_of_line(); !end.ok()) return end;
    }
    return json::Value(std::move(root_));
  }

 private:
  enum class Lines : std::uint8_t { kStay, kCross };

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(char c) {
    if (peek() != c || at_end()) return false;
    ++at_;
    return true;
  }
  Status error(std::string_view what) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    return invalid_argument("line " + std::to_string(line) + ": " + std::string(what));
  }

  // Blanks and comments.
  void skip(Lines lines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        while (!at_end() && peek() != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && lines == Lines::kCross)) {
        ++at_;
      } else {
        return;
      }
    }
  }
  Status end_of_line() {
    skip(Lines::kStay);
    if (at_end() || take('\n')) return {};
    return error("nothing may stand behind a value but a comment");
  }

  Result<std::string> key() {
    if (peek() == '"' || peek() == '\'') return string();
    const std::size_t begin = at_;
    while (!at_end() && is_bare(peek())) ++at_;
    if (at_ == begin) return error("a key is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }

  // [a.b]: the table that the following pairs go to.
  Status header() {
    ++at_;
    if (peek() == '[') return error("arrays of tables are not supported");
    json::Object* table = &root_;
    bool is_new = false;
    do {
      skip(Lines::kStay);
      auto name = key();
      if (!name.ok()) return name.status();
      is_new = table->find(name.value()) == nullptr;
      if (is_new) table->set(name.value(), json::Object());
      json::Value* inner = table->find(name.value());
      if (!inner->is_object()) return error("`" + name.value() + "` is a value, no table");
      table = &inner->as_object();
      skip(Lines::kStay);
    } while (take('.'));
    if (!take(']')) return error("`]` is expected");
    if (!is_new && std::find(headers_.begin(), headers_.end(), table) != headers_.end()) {
      return error("the table comes twice");
    }
    headers_.push_back(table);
    table_ = table;
    return {};
  }

  Status pair(json::Object& table) {
    auto name = key();
    if (!name.ok()) return name.status();
    skip(Lines::kStay);
    if (peek() == '.') return error("dotted keys are not supported");
    if (!take('=')) return error("`=` is expected behind `" + name.value() + "`");
    skip(Lines::kStay);
    auto read = value(0);
    if (!read.ok()) return read.status();
    if (table.find(name.value()) != nullptr) return error("`" + name.value() + "` comes twice");
    table.set(std::move(name).value(), std::move(read).value());
    return {};
  }

  Result<json::Value> value(std::size_t depth) {
    if (depth > kDepthMax) return error("nested too deeply, at most " + std::to_string(kDepthMax));
    const char c = peek();
    if (c == '"' || c == '\'') {
      auto text = string();
      if (!text.ok()) return text.status();
      return json::Value(std::move(text).value());
    }
    if (c == '[') return array(depth);
    if (c == '{') return inline_table();
    return scalar();
  }

  Result<std::string> string() {
    const char quote = peek();
    ++at_;
    if (text_.substr(at_, 2) == std::string(2, quote)) {
      return error("strings over several lines are not supported");
    }
    std::string out;
    while (!take(quote)) {
      if (at_end() || peek() == '\n') return error("a string does not end on its line");
      char c = text_[at_++];
      if (c == '\\' && quote == '"') {
        const std::string_view from = "\"\\ntr";
        const auto which = from.find(peek());
        if (at_end() || which == std::string_view::npos) return error("no such escape");
        c = std::string_view("\"\\\n\t\r")[which];
        ++at_;
      }
      out.push_back(c);
    }
    return out;
  }

  Result<json::Value> array(std::size_t depth) {
    ++at_;
    json::Array out;
    for (skip(Lines::kCross); !take(']'); skip(Lines::kCross)) {
      auto element = value(depth + 1);
      if (!element.ok()) return element.status();
      out.push_back(std::move(element).value());
      skip(Lines::kCross);
      if (!take(',') && peek() != ']') return error("`,` or `]` is expected in an array");
    }
    return json::Value(std::move(out));
  }

  Result<json::Value> inline_table() {
    ++at_;
    json::Object out;
    skip(Lines::kStay);
    if (take('}')) return json::Value(std::move(out));
    do {
      skip(Lines::kStay);
      if (Status status = pair(out); !status.ok()) return status;
      skip(Lines::kStay);
    } while (take(','));
    if (!take('}')) return error("`,` or `}` is expected in an inline table");
    return json::Value(std::move(out));
  }

  // A boolean or a number; underscores between digits are TOML's.
  Result<json::Value> scalar() {
    const std::size_t begin = at_;
    while (!at_end() && (is_bare(peek()) || peek() == '+' || peek() == '.')) ++at_;
    std::string word(text_.substr(begin, at_ - begin));
    if (word == "true" || word == "false") return json::Value(word == "true");
    std::erase(word, '_');
    if (word.starts_with('+')) word.erase(0, 1);
    auto number = json::parse(word);
    if (word.empty() || !number.ok() || !number.value().is_number()) {
      at_ = begin;
      return error("a string, number, boolean, array or inline table is expected");
    }
    return number;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  json::Object root_;
  json::Object* table_ = &root_;
  std::vector<const json::Object*> headers_;
};

}  // namespace

Result<json::Value> parse_toml(std::string_view text) {
  if (const std::size_t valid = base::valid_utf8_prefix(text); valid < text.size()) {
    const auto line = 1 + std::ranges::count(text.substr(0, valid), '\n');
    return invalid_argument("line " + std::to_string(line) + ": this is not UTF-8");
  }
  return Reader(text).document();
}

}  // namespace coxswain::fleet
