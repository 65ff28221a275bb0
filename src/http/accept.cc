#include "http/accept.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <zlib.h>

#include "http/syntax.h"

namespace coxswain::http {
namespace {

// Nothing but a number of 0 to 1 is one.
bool read_quality(std::string_view text, double& quality) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quality);
  return error == std::errc() && end == text.data() + text.size() && quality >= 0 && quality <= 1;
}

}  // namespace

std::string_view Accepted::parameter(std::string_view wanted) const {
  const auto found = std::ranges::find_if(
      parameters, [&](const auto& one) { return equal_ignoring_case(one.first, wanted); });
  return found == parameters.end() ? std::string_view() : found->second;
}

std::vector<Accepted> parse_accepted(std::string_view header) {
  std::vector<Accepted> out;
  while (!header.empty()) {
    std::string_view entry = take_part(header, ',');
    Accepted one{.name = take_part(entry, ';')};
    bool readable = !one.name.empty();
    while (!entry.empty()) {
      std::string_view value = take_part(entry, ';');
      const std::string_view name = take_part(value, '=');
      if (equal_ignoring_case(name, "q")) {
        readable = readable && read_quality(trimmed(value), one.quality);
      } else {
        one.parameters.emplace_back(name, trimmed(value));
      }
    }
    if (readable) out.push_back(std::move(one));
  }
  return out;
}

bool accepts_gzip(std::string_view header) {
  bool any = false;
  for (const Accepted& one : parse_accepted(header)) {
    if (equal_ignoring_case(one.name, "gzip")) return one.quality > 0;
    any = any || (one.name == "*" && one.quality > 0);
  }
  return any;
}

std::string gzipped(std::string_view text) {
  constexpr int kGzipWindow = 15 + 16;  // zlib's number for the largest window, in a file of gzip
  constexpr int kMemory = 8;            // its default
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, kMemory, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::bad_alloc();
  }
  std::string out(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  // zlib reads through a pointer that is not const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);  // there is room for all of it
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace coxswain::http
