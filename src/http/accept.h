#pragma once
// What a client accepts (RFC 9110, section 12): the headers Accept and Accept-Encoding, and gzip.
//
// Thread rule: pure functions.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coxswain::http {

// One entry of such a list.
struct Accepted {
  std::string_view name;  // "text/plain", "gzip", "*"; compare without case
  double quality = 1;     // 0: it is not wanted
  std::vector<std::pair<std::string_view, std::string_view>> parameters = {};  // but q

  // Empty if it is absent.
  std::string_view parameter(std::string_view wanted) const;
};

// In the order of the header. What cannot be read is left out.
std::vector<Accepted> parse_accepted(std::string_view header);
// Of an Accept-Encoding.
bool accepts_gzip(std::string_view header);

// `text` as a file of gzip (RFC 1952). Throws std::bad_alloc.
std::string gzipped(std::string_view text);

}  // namespace coxswain::http
