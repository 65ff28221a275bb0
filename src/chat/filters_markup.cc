// Filters that make or read HTML, and the escaping of URLs.

#include <algorithm>
#include <set>

#include "chat/filters.h"
#include "chat/html.h"
#include "chat/python_format.h"
#include "chat/text_predicates.h"

namespace coxswain::chat {
namespace {

Value filter_safe(const FilterCall& call) {
  Text text = call.input_text();
  text.safe = true;
  return Value::string(std::move(text));
}

Value filter_force_escape(const FilterCall& call) {
  return Value::string(escape_html(call.input_text()));
}

Value filter_escape(const FilterCall& call) {
  return call.input.is_string() && call.input.as_text().safe ? call.input
                                                             : filter_force_escape(call);
}

Value filter_striptags(const FilterCall& call) {
  return Value::string(strip_tags(call.input_text()));
}

// As the reference has it: safe inside an autoescape block, plain outside of one.
Value as_markup(const FilterCall& call, Text text) {
  text.safe = call.interpreter.autoescapes();
  return Value::string(std::move(text));
}

// A name of two or more characters, a colon and up to two slashes.
bool is_scheme(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  std::size_t n = 0;
  for (std::size_t at = 0; at < colon; ++n) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text, at, &length);
    if (c != '.' && c != '+' && c != '-' && !is_word_character(c)) return false;
    at += length;
  }
  const std::string_view rest = text.substr(colon);
  return n >= 2 && (rest == ":" || rest == ":/" || rest == "://");
}

Value filter_urlize(const FilterCall& call) {
  UrlizeOptions options;
  if (const Value* limit = call.argument(0, "trim_url_limit");
      limit != nullptr && !limit->is_none())
    options.shown_max =
        static_cast<std::size_t>(std::max<std::int64_t>(0, call.integer(0, "trim_url_limit", 0)));
  std::set<std::string> relations{"noopener"};
  if (call.flag(1, "nofollow", false)) relations.insert("nofollow");
  for (const Text& relation : split(call.text(3, "rel", ""), nullptr, static_cast<std::size_t>(-1)))
    relations.insert(relation.bytes);
  std::string joined;
  for (const std::string& relation : relations) joined += (joined.empty() ? "" : " ") + relation;
  options.attributes = " rel=\"" + escape_html(Text(joined)).bytes + "\"";
  const Text target = call.text(2, "target", "");
  if (!target.empty())
    options.attributes += " target=\"" + (target.safe ? target : escape_html(target)).bytes + "\"";
  if (const Value* schemes = call.argument(4, "extra_schemes");
      schemes != nullptr && !schemes->is_none()) {
    for (const Value& scheme : iterate(*schemes)) {
      if (!scheme.is_string() || !is_scheme(scheme.as_bytes()))
        fail(repr(scheme).bytes.substr(0, 64) + " is not a valid URI scheme prefix.");
      options.extra_schemes.push_back(scheme.as_bytes());
    }
  }
  const Value escaped = filter_escape(call);
  call.interpreter.reserve_output(escaped.as_bytes().size() + 64,
                                  4 + options.attributes.size() / 8);
  return as_markup(call, link_urls(escaped.as_text(), options));
}

Value filter_xmlattr(const FilterCall& call) {
  if (!call.input.is_dict())
    fail("'" + type_name(call.input) + "' object has no attribute 'items'");
  Text out;
  for (const auto& [key, value] : call.input.as_dict().items()) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_string())
      fail("expected string or bytes-like object, got '" + type_name(key) + "'");
    const Text& name = key.as_text();
    if (name.bytes.find_first_of(" \t\n\v\f\r/>=") != std::string::npos)
      fail("Invalid character in attribute name: " + repr(key).bytes.substr(0, 64));
    const Text content = to_text(value);
    const std::size_t before = out.bytes.size();
    if (!out.empty() || call.flag(0, "autospace", true)) out.append(" ");
    out.append(name.safe ? name : escape_html(name));
    out.append("=\"");
    out.append(content.safe ? content : escape_html(content));
    out.append("\"");
    call.interpreter.grow_output(before, out.bytes.size());
  }
  return as_markup(call, std::move(out));
}

// `is_query`: as part of a query, where a blank is a plus and a slash is written by its number.
Text url_quote(const Text& text, bool is_query) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text.bytes) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (!is_query && c == '/');
    if (plain) {
      out += c;
    } else if (is_query && c == ' ') {
      out += '+';
    } else {
      out += '%';
      out += kHex[(static_cast<unsigned char>(c) >> 4) & 15];
      out += kHex[static_cast<unsigned char>(c) & 15];
    }
  }
  return Text::like(text, out);
}

Value filter_urlencode(const FilterCall& call) {
  const bool iterable = call.input.is_dict() || call.input.is_list() || call.input.is_undefined();
  if (!iterable) return Value::string(url_quote(call.input_text(), false));
  Text out;
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.empty()) out.append("&");
    out.append(url_quote(to_text(key), true));
    out.append("=");
    out.append(url_quote(to_text(value), true));
  };
  if (call.input.is_dict()) {
    for (const auto& [key, value] : call.input.as_dict().items()) add(key, value);
  } else {
    for (const Value& pair : call.interpreter.items(call.input)) {
      const auto parts = call.interpreter.items(pair);
      if (parts.size() != 2) fail("urlencode takes pairs");
      add(parts[0], parts[1]);
    }
  }
  return Value::string(std::move(out));
}

constexpr FilterEntry kFilters[] = {
    {"safe", filter_safe},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_force_escape},
    {"striptags", filter_striptags},
    {"urlize", filter_urlize},
    {"urlencode", filter_urlencode},
    {"xmlattr", filter_xmlattr},
};

}  // namespace

std::span<const FilterEntry> markup_filters() {
  return kFilters;
}

}  // namespace coxswain::chat
