// link_urls(): which words are URLs or mail addresses, and links around them. The rules are those
// of Jinja's urlize().

#include <algorithm>
#include <array>

#include "chat/html.h"
#include "chat/text_predicates.h"

namespace coxswain::chat {
namespace {

using CharacterTest = bool (*)(char32_t);

// How many code points `text` has, if all of them pass; empty otherwise.
std::optional<std::size_t> count_if_all(std::string_view text, CharacterTest accepts) {
  std::size_t n = 0;
  for (std::size_t at = 0; at < text.size(); ++n) {
    std::size_t length = 0;
    if (!accepts(code_point_at(text, at, &length))) return std::nullopt;
    at += length;
  }
  return n;
}

bool has_from_to(std::string_view text,
                 CharacterTest accepts,
                 std::size_t least,
                 std::size_t most) {
  const auto n = count_if_all(text, accepts);
  return n && *n >= least && *n <= most;
}

bool is_label_character(char32_t c) {
  return c == '%' || c == '-' || is_word_character(c);
}
bool is_word_or_percent(char32_t c) {
  return c == '%' || is_word_character(c);
}
bool is_ascii_letter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_hex(char32_t c) {
  return is_decimal(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_mail_host_character(char32_t c) {
  return c == '.' || c == '-' || is_word_character(c);
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  return out;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0;;) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    out.push_back(text.substr(at, end - at));
    if (end == text.size()) return out;
    at = end + 1;
  }
}

// Labels in front of the last; of `least` to `most` characters each.
bool has_labels(const std::vector<std::string_view>& labels, std::size_t least, std::size_t most) {
  return std::all_of(labels.begin(), labels.end() - 1, [&](std::string_view label) {
    return has_from_to(label, is_label_character, least, most);
  });
}

bool is_scheme_host(std::string_view host) {
  const auto labels = split_at(host, '.');
  const std::string last = ascii_lower(labels.back());
  const bool is_top =
      has_from_to(labels.back(), is_ascii_letter, 2, 63) ||
      (last.starts_with("xn--") && has_from_to(labels.back().substr(4), is_word_or_percent, 2, 59));
  return is_top && has_labels(labels, 1, static_cast<std::size_t>(-1));
}

bool is_common_host(std::string_view host) {
  constexpr std::array<std::string_view, 8> kTops{
      "com", "net", "int", "edu", "gov", "org", "info", "mil"};
  const auto labels = split_at(host, '.');
  return labels.size() > 1 && std::ranges::find(kTops, ascii_lower(labels.back())) != kTops.end() &&
         has_labels(labels, 2, 63);
}

bool is_ipv4(std::string_view host) {
  const auto parts = split_at(host, '.');
  return parts.size() == 4 && std::ranges::all_of(parts, [](std::string_view part) {
           return has_from_to(part, is_decimal, 1, 3);
         });
}

// [..]: two groups that a colon ends, then one to six whose colon may be missing.
bool is_ipv6(std::string_view host) {
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') return false;
  const auto groups = split_at(host.substr(1, host.size() - 2), ':');
  if (groups.size() < 3) return false;
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto n = count_if_all(groups[i], is_hex);
    if (!n || (i < 2 && *n > 4)) return false;
    const std::size_t least = i + 1 < groups.size() ? 1 : 0;
    if (i >= 2) pieces += std::max(least, (*n + 3) / 4);
  }
  return pieces <= 6;
}

bool is_url(std::string_view text) {
  const std::string lower = ascii_lower(text.substr(0, 8));
  const std::size_t scheme = lower.starts_with("https://")  ? 8
                             : lower.starts_with("http://") ? 7
                                                            : 0;
  const std::size_t prefix = scheme != 0 ? scheme : lower.starts_with("www.") ? 4 : 0;
  const auto matches = [](std::string_view rest, bool (*is_host)(std::string_view)) {
    std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
    const std::size_t bracket = host.rfind(']');
    const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
    if (colon != std::string_view::npos) {
      if (!has_from_to(host.substr(colon + 1), is_decimal, 1, 5)) return false;
      host = host.substr(0, colon);
    }
    return is_host(host);
  };
  const std::string_view rest = text.substr(prefix);
  return (prefix != 0 && matches(rest, is_scheme_host)) || matches(text, is_common_host) ||
         (scheme != 0 && (matches(rest, is_ipv4) || matches(rest, is_ipv6)));
}

bool is_mail_address(std::string_view text) {
  const std::size_t at = text.rfind('@');
  if (at == std::string_view::npos || at == 0) return false;
  const std::string_view host = text.substr(at + 1);
  const std::size_t dot = host.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  std::size_t length = 0;
  return is_word_character(code_point_at(host, 0, &length)) &&
         count_if_all(host, is_mail_host_character) &&
         has_from_to(host.substr(dot + 1), is_word_character, 1, static_cast<std::size_t>(-1));
}

// Where the brackets and punctuation around a word end: [begin, end) is what may be a link.
TextSpan inner_span(std::string_view word) {
  TextSpan out{0, word.size()};
  for (;;) {
    const std::string_view rest = word.substr(out.begin);
    if (rest.starts_with('(') || rest.starts_with('<')) {
      ++out.begin;
    } else if (rest.starts_with("&lt;")) {
      out.begin += 4;
    } else {
      break;
    }
  }
  for (;;) {
    const std::string_view rest = word.substr(out.begin, out.end - out.begin);
    if (!rest.empty() && std::string_view(")>.,\n").find(rest.back()) != std::string_view::npos) {
      --out.end;
    } else if (rest.ends_with("&gt;")) {
      out.end -= 4;
    } else {
      break;
    }
  }
  return out;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++n;
  return n;
}

// Closing brackets that belong to opening ones inside go back in.
void balance(std::string_view word, TextSpan& inner) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPairs{
      {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}}};
  for (const auto& [open, close] : kPairs) {
    const std::string_view middle = word.substr(inner.begin, inner.end - inner.begin);
    const std::size_t n_open = count_of(middle, open);
    if (n_open <= count_of(middle, close)) continue;
    const std::size_t n_close = count_of(word.substr(inner.end), close);
    for (std::size_t i = 0; i < std::min(n_open, n_close); ++i)
      inner.end = word.find(close, inner.end) + close.size();
  }
}

Text link(std::string_view prefix,
          const Text& url,
          std::string_view attributes,
          const Text& shown) {
  Text out("<a href=\"" + std::string(prefix));
  out.append(url);
  out.append("\"" + std::string(attributes) + ">");
  out.append(shown);
  out.append("</a>");
  return out;
}

Text linked(const Text& text, const UrlizeOptions& options) {
  const std::string& url = text.bytes;
  if (is_url(url)) {
    const bool has_scheme = url.starts_with("https://") || url.starts_with("http://");
    Text shown = text;
    const auto offsets = code_point_offsets(url);
    if (options.shown_max && offsets.size() - 1 > *options.shown_max) {
      shown = text.slice(0, offsets[*options.shown_max]);
      shown.append("...");
    }
    return link(has_scheme ? "" : "https://", text, options.attributes, shown);
  }
  if (url.starts_with("mailto:") && is_mail_address(std::string_view(url).substr(7)))
    return link("", text, "", text.slice(7, url.size()));
  if (url.find('@') != std::string::npos && !url.starts_with("www.") && !url.starts_with('@') &&
      url.find(':') == std::string::npos && is_mail_address(url))
    return link("mailto:", text, "", text);
  Text out = text;
  for (const std::string& scheme : options.extra_schemes) {
    if (out.bytes != scheme && out.bytes.starts_with(scheme))
      out = link("", out, options.attributes, out);
  }
  return out;
}

}  // namespace

Text link_urls(const Text& escaped, const UrlizeOptions& options) {
  Text out;
  std::size_t at = 0;
  const std::string& bytes = escaped.bytes;
  const auto end_of_run = [&](std::size_t from, bool blank) {
    while (from < bytes.size()) {
      std::size_t length = 0;
      if (is_space(code_point_at(bytes, from, &length)) != blank) break;
      from += length;
    }
    return from;
  };
  while (at < bytes.size()) {
    const std::size_t end = end_of_run(at, false);
    const Text word = escaped.slice(at, end);
    TextSpan inner = inner_span(word.bytes);
    balance(word.bytes, inner);
    out.append(word.slice(0, inner.begin));
    out.append(linked(word.slice(inner.begin, inner.end), options));
    out.append(word.slice(inner.end, word.bytes.size()));
    at = end_of_run(end, true);
    out.append(escaped.slice(end, at));
  }
  return out;
}

}  // namespace coxswain::chat
