#include "tokenizer/origin_runs.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {

void OriginRuns::add_same(std::size_t n_bytes, std::size_t begin) {
  if (n_bytes == 0) return;
  const bool goes_on = !runs_.empty() && runs_.back().unit_bytes == 0 &&
                       runs_.back().origin_begin + (size_ - runs_.back().begin) == begin;
  if (!goes_on)
    runs_.push_back({static_cast<std::uint32_t>(size_), 0, static_cast<std::uint32_t>(begin), 0});
  size_ += n_bytes;
}

void OriginRuns::add_unit(std::size_t n_bytes, Origin origin) {
  if (n_bytes == 0) return;
  const auto unit_bytes = static_cast<std::uint32_t>(n_bytes);
  const std::uint32_t origin_bytes = origin.end - origin.begin;
  const auto goes_on = [&](const Run& last) {
    if (last.unit_bytes != unit_bytes || last.origin_bytes != origin_bytes) return false;
    const std::size_t n_units = (size_ - last.begin) / unit_bytes;
    return last.origin_begin + n_units * origin_bytes == origin.begin;
  };
  if (runs_.empty() || !goes_on(runs_.back()))
    runs_.push_back({static_cast<std::uint32_t>(size_), unit_bytes, origin.begin, origin_bytes});
  size_ += n_bytes;
}

void OriginRuns::add_run_part(const Run& run, std::size_t begin, std::size_t end) {
  if (run.unit_bytes == 0) return add_same(end - begin, run.origin_begin + (begin - run.begin));
  while (begin < end) {
    const std::size_t unit = (begin - run.begin) / run.unit_bytes;
    const std::size_t unit_end = run.begin + (unit + 1) * run.unit_bytes;
    const auto origin =
        static_cast<std::uint32_t>(run.origin_begin + unit * std::size_t{run.origin_bytes});
    const std::size_t stop = std::min(end, unit_end);
    add_unit(stop - begin, {origin, origin + run.origin_bytes});
    begin = stop;
  }
}

void OriginRuns::add_part(const OriginRuns& other, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  for (std::size_t run = other.find(begin); begin < end; ++run) {
    const std::size_t stop = std::min(end, other.end_of(run));
    add_run_part(other.runs_[run], begin, stop);
    begin = stop;
  }
}

std::size_t OriginRuns::find(std::size_t at) const {
  const auto has = [&](std::size_t run) {
    return run < runs_.size() && runs_[run].begin <= at && at < end_of(run);
  };
  if (!has(last_) && !has(++last_)) {
    const auto after = std::ranges::upper_bound(runs_, at, {}, &Run::begin);
    last_ = static_cast<std::size_t>(after - runs_.begin()) - 1;
  }
  return last_;
}

Origin OriginRuns::at(std::string_view text, std::size_t at) const {
  const Run& run = runs_[find(at)];
  if (run.unit_bytes == 0) {
    std::size_t begin = at;
    std::size_t end = at + 1;
    while (begin > run.begin && is_continuation(text[begin])) --begin;
    while (end < text.size() && is_continuation(text[end])) ++end;
    const std::size_t base = run.origin_begin - std::size_t{run.begin};
    return {static_cast<std::uint32_t>(base + begin), static_cast<std::uint32_t>(base + end)};
  }
  const std::size_t unit = (at - run.begin) / run.unit_bytes;
  const auto begin =
      static_cast<std::uint32_t>(run.origin_begin + unit * std::size_t{run.origin_bytes});
  return {begin, begin + run.origin_bytes};
}

}  // namespace coxswain::tokenizer
