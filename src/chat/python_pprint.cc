// pretty_print(): the algorithm of Python's pprint module at its defaults: width 80, one blank per
// level, sorted mappings, long texts split at white space.

#include <algorithm>

#include "chat/operators.h"
#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

constexpr std::ptrdiff_t kWidth = 80;

using Member = std::pair<Value, Value>;

// Python's order; values of kinds without an order by the names of their types.
bool comes_before(const Member& a, const Member& b) {
  try {
    return order(a.first, b.first, "<") < 0;
  } catch (const RenderError&) {
    return type_name(a.first) < type_name(b.first);
  }
}

std::vector<Member> sorted_members(const Dict& dict) {
  std::vector<Member> out = dict.items();
  std::ranges::stable_sort(out, comes_before);
  return out;
}

std::ptrdiff_t length_of(const Text& text) {
  return static_cast<std::ptrdiff_t>(count_code_points(text.bytes));
}

bool is_plain_list(const Value& value) {
  return value.is_list() &&
         (value.as_list().kind == ListKind::kList || value.as_list().kind == ListKind::kTuple);
}

// repr() with sorted mappings.
Text sorted_repr(const Value& value) {
  if (value.is_dict()) {
    Text out("{");
    for (const auto& [key, member] : sorted_members(value.as_dict())) {
      if (out.bytes.size() > 1) out.append(", ");
      out.append(sorted_repr(key));
      out.append(": ");
      out.append(sorted_repr(member));
    }
    out.append("}");
    return out;
  }
  if (!is_plain_list(value)) return repr(value);
  const auto& items = value.as_list().items;
  Text out(is_tuple(value) ? "(" : "[");
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(sorted_repr(items[i]));
  }
  out.append(is_tuple(value) ? (items.size() == 1 ? ",)" : ")") : "]");
  return out;
}

// Pieces of non-blanks with the blanks behind them.
std::vector<Text> words_with_blanks(const Text& line) {
  std::vector<Text> out;
  std::size_t begin = 0;
  bool in_blanks = false;
  for (std::size_t at = 0; at < line.bytes.size();) {
    std::size_t length = 0;
    const bool blank = is_space(code_point_at(line.bytes, at, &length));
    if (!blank && in_blanks) {
      out.push_back(line.slice(begin, at));
      begin = at;
    }
    in_blanks = blank;
    at += length;
  }
  out.push_back(line.slice(begin, line.bytes.size()));
  return out;
}

class Printer {
 public:
  explicit Printer(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // `indent`: columns in front of the value; `allowance`: columns that must be left behind it.
  void print(const Value& value,
             std::ptrdiff_t indent,
             std::ptrdiff_t allowance,
             std::size_t level) {
    Text shown = sorted_repr(value);
    const bool fits = length_of(shown) <= kWidth - indent - allowance;
    if (!fits && value.is_dict()) {
      print_dict(value.as_dict(), indent, allowance, level + 1);
    } else if (!fits && is_plain_list(value)) {
      print_list(value, indent, allowance, level + 1);
    } else if (!fits && value.is_string() && !value.as_text().safe) {
      print_text(value.as_text(), indent, allowance, level + 1);
    } else {
      out_.append(shown);
    }
  }

  Text take() { return std::move(out_); }

 private:
  void new_line(std::ptrdiff_t indent) {
    require_output(out_.bytes.size() + static_cast<std::size_t>(indent), bytes_max_);
    out_.append("\n" + std::string(static_cast<std::size_t>(indent), ' '));
  }

  void print_dict(const Dict& dict,
                  std::ptrdiff_t indent,
                  std::ptrdiff_t allowance,
                  std::size_t level) {
    const std::vector<Member> members = sorted_members(dict);
    out_.append("{");
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Text key = sorted_repr(members[i].first);
      out_.append(key);
      out_.append(": ");
      const bool last = i + 1 == members.size();
      print(members[i].second, indent + 1 + length_of(key) + 2, last ? allowance + 1 : 1, level);
      if (last) break;
      out_.append(",");
      new_line(indent + 1);
    }
    out_.append("}");
  }

  void print_list(const Value& list,
                  std::ptrdiff_t indent,
                  std::ptrdiff_t allowance,
                  std::size_t level) {
    const auto& items = list.as_list().items;
    const std::string_view end = !is_tuple(list) ? "]" : items.size() == 1 ? ",)" : ")";
    out_.append(is_tuple(list) ? "(" : "[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool last = i + 1 == items.size();
      const auto behind = allowance + static_cast<std::ptrdiff_t>(end.size());
      print(items[i], indent + 1, last ? behind : 1, level);
      if (last) break;
      out_.append(",");
      new_line(indent + 1);
    }
    out_.append(end);
  }

  void print_text(const Text& text,
                  std::ptrdiff_t indent,
                  std::ptrdiff_t allowance,
                  std::size_t level) {
    const bool outermost = level == 1;
    if (outermost) {
      ++indent;
      ++allowance;
    }
    const std::vector<Text> chunks = text_chunks(text, kWidth - indent, allowance);
    const bool brackets = outermost && chunks.size() > 1;
    if (brackets) out_.append("(");
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) new_line(indent);
      out_.append(chunks[i]);
    }
    if (brackets) out_.append(")");
  }

  // The reprs of the pieces of a text, each as long as fits.
  static std::vector<Text> text_chunks(const Text& text,
                                       std::ptrdiff_t width,
                                       std::ptrdiff_t allowance) {
    std::vector<Text> chunks;
    const auto shown = [](const Text& piece) { return repr(Value::string(piece)); };
    const std::vector<Text> lines = split_lines(text, true);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const bool last_line = i + 1 == lines.size();
      Text whole = shown(lines[i]);
      if (length_of(whole) <= width - (last_line ? allowance : 0)) {
        chunks.push_back(std::move(whole));
        continue;
      }
      const std::vector<Text> parts = words_with_blanks(lines[i]);
      Text current;
      for (std::size_t j = 0; j < parts.size(); ++j) {
        Text candidate = current;
        candidate.append(parts[j]);
        const bool last = last_line && j + 1 == parts.size();
        if (length_of(shown(candidate)) > width - (last ? allowance : 0)) {
          if (!current.empty()) chunks.push_back(shown(current));
          current = parts[j];
        } else {
          current = std::move(candidate);
        }
      }
      if (!current.empty()) chunks.push_back(shown(current));
    }
    return chunks;
  }

  std::size_t bytes_max_;
  Text out_;
};

}  // namespace

Text pretty_print(const Value& value, std::size_t bytes_max) {
  Printer printer(bytes_max);
  printer.print(value, 0, 0, 0);
  return printer.take();
}

}  // namespace coxswain::chat
