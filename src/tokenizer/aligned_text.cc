#include "tokenizer/aligned_text.h"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {

TextSpan AlignedText::origin(std::size_t begin, std::size_t end) const {
  if (!has_origins()) return {};
  if (begin >= end) {
    const std::size_t at = begin < size() ? origin_of_byte(begin).begin
                           : empty()      ? base_
                                          : origin_of_byte(size() - 1).end;
    return {at, at};
  }
  if (is_view_) {
    while (begin > 0 && is_continuation(view_[begin])) --begin;
    while (end < view_.size() && is_continuation(view_[end])) ++end;
    return {base_ + begin, base_ + end};
  }
  const std::size_t first = origin_of_byte(begin).begin;
  return {first, std::max<std::size_t>(origin_of_byte(end - 1).end, first)};
}

Origin AlignedText::origin_of_byte(std::size_t at) const {
  if (!has_origins()) return {};
  if (!is_view_) return origins_.at(owned_, at);
  const TextSpan span = origin(at, at + 1);
  return {static_cast<std::uint32_t>(span.begin), static_cast<std::uint32_t>(span.end)};
}

void AlignedText::add_origins_to(OriginRuns& out, std::size_t begin, std::size_t end) const {
  if (is_view_) {
    out.add_same(end - begin, base_ + begin);
  } else {
    out.add_part(origins_, begin, end);
  }
}

AlignedText AlignedText::slice(std::size_t begin, std::size_t end) const {
  if (is_view_) return {view_.substr(begin, end - begin), base_ + begin, keeps_origins_};
  if (!keeps_origins_) {
    const std::size_t n_first = std::clamp(n_first_bytes_, begin, end) - begin;
    return without_origins(owned_.substr(begin, end - begin), n_first);
  }
  OriginRuns origins;
  origins.add_part(origins_, begin, end);
  return {owned_.substr(begin, end - begin), std::move(origins)};
}

AlignedBuilder::AlignedBuilder(const AlignedText& source) : source_(source) {
  text_.reserve(source.size() + source.size() / 16 + 64);
}

// Room for n_more bytes, when those before byte `done` of the source have been written: what is
// left is taken to grow as what has been.
void AlignedBuilder::grow(std::size_t n_more, std::size_t done) {
  const std::size_t needed = text_.size() + n_more;
  if (needed <= text_.capacity()) return;
  const double growth =
      static_cast<double>(needed) / static_cast<double>(std::max<std::size_t>(done, 1));
  const double left = static_cast<double>(source_.size() - std::min(done, source_.size()));
  const double expected = static_cast<double>(needed) + left * std::min(growth, 8.0) * 1.02 + 64.0;
  text_.reserve(std::max(needed + needed / 4, static_cast<std::size_t>(expected)));
}

void AlignedBuilder::keep(std::size_t begin, std::size_t end) {
  const std::string_view text = source_.text();
  grow(end - begin, end);
  if (!source_.keeps_origins()) {
    for (std::size_t i = begin;
         i < end && n_first_bytes_ == text_.size() + (i - begin) && source_.begins_input(i);
         ++i)
      ++n_first_bytes_;
    text_.append(text.substr(begin, end - begin));
    return;
  }
  text_.append(text.substr(begin, end - begin));
  source_.add_origins_to(origins_, begin, end);
}

void AlignedBuilder::put(std::string_view bytes, std::size_t begin, std::size_t end) {
  grow(bytes.size(), end);
  if (!source_.keeps_origins()) {
    const std::size_t at = begin < end ? begin : std::min(begin, source_.size() - 1);
    if (n_first_bytes_ == text_.size() && (source_.empty() || source_.begins_input(at)))
      n_first_bytes_ += bytes.size();
    text_.append(bytes);
    return;
  }
  Origin origin;
  if (begin < end) {
    const TextSpan span = source_.origin(begin, end);
    origin = {static_cast<std::uint32_t>(span.begin), static_cast<std::uint32_t>(span.end)};
  } else if (!source_.empty()) {
    origin = source_.origin_of_byte(std::min(begin, source_.size() - 1));
  }
  text_.append(bytes);
  // A character in place of one of its length costs no run of its own.
  const bool is_same = !bytes.empty() && origin.end - origin.begin == bytes.size() &&
                       code_point_at(bytes, 0).n_bytes == bytes.size();
  if (is_same) {
    origins_.add_same(bytes.size(), origin.begin);
  } else {
    origins_.add_unit(bytes.size(), origin);
  }
}

// A text with broken bytes has its places in any case: added tokens look there for untrusted spans.
AlignedText sanitized(std::string_view input, bool keeps_origins) {
  std::size_t valid = valid_utf8_prefix(input);
  if (valid == input.size()) return {input, 0, keeps_origins};
  std::string text;
  text.reserve(input.size() + 64);
  OriginRuns origins;
  std::size_t at = 0;
  while (at < input.size()) {
    text.append(input.substr(at, valid));
    origins.add_same(valid, at);
    at += valid;
    if (at == input.size()) break;
    const std::size_t broken = broken_utf8_at(input.substr(at)).n_bytes;
    const auto begin = static_cast<std::uint32_t>(at);
    text.append(kReplacementUtf8);
    origins.add_unit(kReplacementUtf8.size(), {begin, begin + static_cast<std::uint32_t>(broken)});
    at += broken;
    valid = valid_utf8_prefix(input.substr(at));
  }
  return {std::move(text), std::move(origins)};
}

}  // namespace coxswain::tokenizer
