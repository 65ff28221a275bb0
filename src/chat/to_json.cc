#include "chat/to_json.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "chat/operators.h"
#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

class Writer {
 public:
  explicit Writer(const ToJsonOptions& options)
      : options_(options),
        item_separator_(options.separators ? options.separators->first
                        : options.indent   ? ","
                                           : ", "),
        key_separator_(options.separators ? options.separators->second : ": ") {}

  void write(const Value& value, std::size_t level) {
    require_output(out_.size(), options_.bytes_max);
    switch (value.kind()) {
      case Value::Kind::kNone:
        out_ += "null";
        return;
      case Value::Kind::kBool:
        out_ += value.truthy() ? "true" : "false";
        return;
      case Value::Kind::kInt:
        out_ += std::to_string(value.as_int());
        return;
      case Value::Kind::kLargeInt:
        out_ += value.as_digits();
        return;
      case Value::Kind::kFloat:
        write_real(value.as_double());
        return;
      case Value::Kind::kString:
        marked_ = marked_ || value.as_text().is_marked();
        write_string(value.as_bytes());
        return;
      case Value::Kind::kDict:
        write_dict(value.as_dict(), level);
        return;
      case Value::Kind::kList:
        if (value.as_list().kind == ListKind::kList || value.as_list().kind == ListKind::kTuple) {
          write_list(value.as_list().items, level);
          return;
        }
        break;
      default:
        break;
    }
    fail("Object of type " + type_name(value) + " is not JSON serializable");
  }

  Text take() { return marked_ ? Text::untrusted(std::move(out_)) : Text(std::move(out_)); }

 private:
  void write_real(double value) {
    const std::string text = float_repr(value);
    out_ += text == "nan"    ? "NaN"
            : text == "inf"  ? "Infinity"
            : text == "-inf" ? "-Infinity"
                             : text;
  }

  void write_escape(unsigned unit) {
    std::array<char, 16> buffer;
    std::snprintf(buffer.data(), buffer.size(), "\\u%04x", unit);
    out_ += buffer.data();
  }

  void write_string(std::string_view text) {
    constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
    constexpr std::string_view kTo = "\"\\nrtfb";
    const auto is_plain = [&](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte >= 0x20 && c != '"' && c != '\\' && (byte < 0x80 || !options_.ensure_ascii);
    };
    out_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at;
      while (end < text.size() && is_plain(text[end])) ++end;
      out_.append(text.substr(at, end - at));
      at = end;
      if (at == text.size()) break;
      const auto [c, n_bytes] = base::code_point_at(text, at);
      if (const std::size_t found =
              c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
          found != std::string_view::npos) {
        out_ += '\\';
        out_ += kTo[found];
      } else if (c >= 0x10000) {
        write_escape(static_cast<unsigned>(0xD800 + ((c - 0x10000) >> 10)));
        write_escape(static_cast<unsigned>(0xDC00 + ((c - 0x10000) & 0x3FF)));
      } else {
        write_escape(static_cast<unsigned>(c));
      }
      at += n_bytes;
    }
    out_ += '"';
  }

  void new_line(std::size_t level) {
    if (!options_.indent) return;
    out_ += '\n';
    for (std::size_t i = 0; i < level; ++i) out_ += *options_.indent;
  }

  void write_list(const std::vector<Value>& items, std::size_t level) {
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += item_separator_;
      new_line(level + 1);
      write(items[i], level + 1);
    }
    if (!items.empty()) new_line(level);
    out_ += ']';
  }

  void write_key(const Value& key) {
    marked_ = marked_ || (key.is_string() && key.as_text().is_marked());
    switch (key.kind()) {
      case Value::Kind::kString:
        write_string(key.as_bytes());
        return;
      case Value::Kind::kInt:
        write_string(std::to_string(key.as_int()));
        return;
      case Value::Kind::kLargeInt:
        write_string(key.as_digits());
        return;
      case Value::Kind::kFloat:
        write_string(float_repr(key.as_double()));
        return;
      case Value::Kind::kBool:
        write_string(key.truthy() ? "true" : "false");
        return;
      case Value::Kind::kNone:
        write_string("null");
        return;
      default:
        fail("keys must be str, int, float, bool or None, not " + type_name(key));
    }
  }

  void write_dict(const Dict& dict, std::size_t level) {
    std::vector<const std::pair<Value, Value>*> members;
    for (const auto& member : dict.items()) members.push_back(&member);
    if (options_.sort_keys) {
      std::ranges::stable_sort(
          members, [](const auto* a, const auto* b) { return order(a->first, b->first, "<") < 0; });
    }
    out_ += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out_ += item_separator_;
      new_line(level + 1);
      write_key(members[i]->first);
      out_ += key_separator_;
      write(members[i]->second, level + 1);
    }
    if (!members.empty()) new_line(level);
    out_ += '}';
  }

  const ToJsonOptions& options_;
  std::string item_separator_;
  std::string key_separator_;
  std::string out_;
  bool marked_ = false;
};

}  // namespace

Text to_json(const Value& value, const ToJsonOptions& options) {
  Writer writer(options);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace coxswain::chat
