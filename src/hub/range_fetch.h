#pragma once
// fetch_ranges: a part of a file over several connections at once. Each brings a range into memory; they are handed on
// in the order of the file, so what was handed on is always a beginning, which a later run can go on behind. A server
// that has enough of them (429, 503) is asked for one range at a time from then on.
//
// Thread rule: `take` is called by the caller's thread; `refusal` by any, also at once.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include <coxswain/status.h>

#include "hub/fetcher.h"
#include "hub/tries.h"

namespace coxswain::hub {

struct RangeFetch {
  FetcherFactory fetchers;
  FetchRequest request;           // bytes [offset, end) of its file
  std::uint64_t file_bytes = 0;   // of all of it
  std::size_t n_connections = 4;  // 1 or more
  std::uint64_t range_bytes = std::uint64_t{16}
                              << 20;  // in memory: twice so many for each connection
  Tries tries{};                      // of each range
  // The next bytes of the file. An error ends everything.
  std::function<Status(std::string_view)> take;
  // What an answer without a body means.
  std::function<Status(const FetchHead&)> refusal;
};

// Errors: kUnimplemented: the server sends no ranges; what was taken is a beginning. The first of take() and refusal();
// kUnavailable once a range was tried too often; kDataLoss for a range that was not asked for, or of a file of another
// size. tries.wait is not used: pauses end where all ends.
Status fetch_ranges(const RangeFetch& fetch);

// Whether a range is one of a file of that size, as far as its head says. Errors: kDataLoss.
Status check_total(const FetchHead& head, std::uint64_t file_bytes);

}  // namespace coxswain::hub
