#include "tokenizer/origin_runs.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kRunsPerMark = 32;

// The first number of a run: its length, and in the two lowest bits what else is written.
constexpr std::uint64_t kHasUnits = 1;
constexpr std::uint64_t kHasJump = 2;
constexpr int kLengthShift = 2;

// Seven bits a byte, lowest first; the highest bit says that there are more.
void put_number(std::vector<std::uint8_t>& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) out.push_back(static_cast<std::uint8_t>(number | 0x80));
  out.push_back(static_cast<std::uint8_t>(number));
}

std::uint64_t take_number(const std::vector<std::uint8_t>& in, std::size_t& at) {
  std::uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    const std::uint8_t byte = in[at++];
    number |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return number;
  }
}

// Small for small distances in both directions.
std::uint64_t as_number(std::int64_t jump) {
  return jump < 0 ? static_cast<std::uint64_t>(-jump) * 2 - 1
                  : static_cast<std::uint64_t>(jump) * 2;
}
std::int64_t as_jump(std::uint64_t number) {
  const auto half = static_cast<std::int64_t>((number + 1) / 2);
  return number % 2 == 1 ? -half : half;
}

}  // namespace

std::uint32_t OriginRuns::Run::origin_end() const {
  return origin_begin + (unit_bytes == 0 ? end - begin : (end - begin) / unit_bytes * origin_bytes);
}

void OriginRuns::close_last() {
  if (last_.begin == last_.end) return;
  if (n_encoded_++ % kRunsPerMark == 0)
    marks_.push_back(
        {static_cast<std::uint32_t>(encoded_.size()), last_.begin, encoded_origin_end_});
  const bool has_units = last_.unit_bytes != 0;
  const std::int64_t jump = std::int64_t{last_.origin_begin} - std::int64_t{encoded_origin_end_};
  const std::uint64_t length =
      has_units ? (last_.end - last_.begin) / last_.unit_bytes : last_.end - last_.begin;
  put_number(encoded_,
             length << kLengthShift | (has_units ? kHasUnits : 0) | (jump != 0 ? kHasJump : 0));
  if (has_units) {
    put_number(encoded_, last_.unit_bytes);
    put_number(encoded_, last_.origin_bytes);
  }
  if (jump != 0) put_number(encoded_, as_number(jump));
  encoded_origin_end_ = last_.origin_end();
}

void OriginRuns::start(const Run& run) {
  close_last();
  last_ = run;
}

// Moves to the run behind. REQUIRES: there is one in encoded_.
void OriginRuns::step(Cursor& cursor) const {
  Run run;
  run.begin = cursor.run.end;
  run.origin_begin = cursor.run.origin_end();
  const std::uint64_t head = take_number(encoded_, cursor.next);
  auto n_bytes = static_cast<std::uint32_t>(head >> kLengthShift);
  if ((head & kHasUnits) != 0) {
    run.unit_bytes = static_cast<std::uint32_t>(take_number(encoded_, cursor.next));
    run.origin_bytes = static_cast<std::uint32_t>(take_number(encoded_, cursor.next));
    n_bytes *= run.unit_bytes;
  }
  if ((head & kHasJump) != 0)
    run.origin_begin = static_cast<std::uint32_t>(std::int64_t{run.origin_begin} +
                                                  as_jump(take_number(encoded_, cursor.next)));
  run.end = run.begin + n_bytes;
  cursor.run = run;
}

const OriginRuns::Run& OriginRuns::find(std::size_t at) const {
  if (at >= last_.begin) return last_;
  if (found_.run.has(at)) return found_.run;
  if (found_.run.end == at && at > 0) {  // most look-ups go from left to right
    step(found_);
    return found_.run;
  }
  const auto after = std::ranges::upper_bound(marks_, at, {}, &Mark::begin);
  const Mark& mark = *(after - 1);
  const bool is_near = found_.run.begin <= at && found_.next > mark.encoded_at;
  if (!is_near) {
    found_ = {};
    found_.run.begin = found_.run.end = mark.begin;
    found_.run.origin_begin = mark.origin_begin;
    found_.next = mark.encoded_at;
  }
  while (!found_.run.has(at)) step(found_);
  return found_.run;
}

void OriginRuns::add_same(std::size_t n_bytes, std::size_t begin) {
  if (n_bytes == 0) return;
  const auto end = static_cast<std::uint32_t>(size() + n_bytes);
  if (last_.begin != last_.end && last_.unit_bytes == 0 && last_.origin_end() == begin) {
    last_.end = end;
    return;
  }
  Run run;
  run.begin = last_.end;
  run.end = end;
  run.origin_begin = static_cast<std::uint32_t>(begin);
  start(run);
}

void OriginRuns::add_unit(std::size_t n_bytes, Origin origin) {
  if (n_bytes == 0) return;
  Run run;
  run.begin = last_.end;
  run.end = static_cast<std::uint32_t>(size() + n_bytes);
  run.unit_bytes = static_cast<std::uint32_t>(n_bytes);
  run.origin_begin = origin.begin;
  run.origin_bytes = origin.end - origin.begin;
  const bool goes_on = last_.unit_bytes == run.unit_bytes &&
                       last_.origin_bytes == run.origin_bytes && last_.origin_end() == origin.begin;
  if (!goes_on) return start(run);
  last_.end = run.end;
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
  while (begin < end) {
    const Run& run = other.find(begin);
    const std::size_t stop = std::min<std::size_t>(end, run.end);
    add_run_part(run, begin, stop);
    begin = stop;
  }
}

Origin OriginRuns::at(std::string_view text, std::size_t at) const {
  const Run& run = find(at);
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
