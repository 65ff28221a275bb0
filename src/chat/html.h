#pragma once
// HTML in texts: escaping, the way back, and what the filters striptags and urlize do. Sources:
// the Python packages MarkupSafe 3 and Jinja 3.1, and html.unescape of Python's standard library.
//
// Marks follow their characters. Thread rule: pure functions.

#include <cstddef>
#include <optional>
#include <string>

#include "chat/text.h"

namespace coxswain::chat {

// & < > " ' as HTML entities; the result is safe.
Text escape_html(const Text& text);

// Entities by number, and the names of ISO 8859-1, of XML and of common punctuation, as characters;
// any other name stays as it is. The result is not safe.
Text unescape_html(const Text& text);

// Without tags and comments, runs of white space as one blank, entities as characters.
Text strip_tags(const Text& text);

struct UrlizeOptions {
  std::optional<std::size_t> shown_max;  // characters of a link's text
  std::string attributes;                // behind href, with a blank in front
  std::vector<std::string> extra_schemes;
};

// Links around URLs and mail addresses of an escaped text.
Text link_urls(const Text& escaped, const UrlizeOptions& options);

}  // namespace coxswain::chat
