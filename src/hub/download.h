#pragma once
// download_model: brings a model of a hub into the cache of the hub's own tools, so that either reads the other's:
//
//   <cache>/models--org--name/blobs/<digest>                the bytes; <digest>.incomplete while they come
//                            /snapshots/<commit>/<name>     a relative link to its blob, once that is whole
//                            /refs/<revision>               the commit; written when all files are there
//   <cache>/.locks/models--org--name/<digest>.lock          held (flock) by whoever downloads the blob
//
// Every blob has the size and the digest that the list of files said, or is no blob. What a transfer that broke off
// left is gone on with, by this process and by the next. What is in the cache is not asked for again.
//
// Thread rule: one thread, which has others fetch; several processes may share a cache.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <coxswain/status.h>

#include "hub/fetcher.h"
#include "hub/tries.h"

namespace coxswain::hub {

struct Progress {
  std::string file;              // the one that has come further
  std::uint64_t file_bytes = 0;  // of it that are here
  std::uint64_t file_bytes_all = 0;
  std::uint64_t model_bytes = 0;  // of all files that are here
  std::uint64_t model_bytes_all = 0;
};

struct Wanted {
  std::string endpoint = "https://huggingface.co";  // without '/' at its end
  std::string cache;                                // made if it is not there
  std::string id;                                   // org/name
  std::string type{};                               // of GGUF, such as Q4_K_M; empty: none
  std::string revision = "main";                    // branch, tag or commit
  std::string token{};                              // of the hub's user
  Tries tries{};                                    // of the list, each file and each range
  // Files that lack more than range_bytes come over so many connections at once, in ranges of that size.
  std::size_t n_connections = 4;
  std::uint64_t range_bytes = std::uint64_t{16} << 20;
  std::function<void(const Progress&)> tell = [](const Progress&) {};
};

// Returns the folder of the snapshot.
// Errors: kInvalidArgument for a bad id or revision; kNotFound if the hub knows no such model, or none of its files is
// one that we read; kFailedPrecondition if it wants a token or a licence accepted; kResourceExhausted if the disk is
// too small; kUnavailable if the hub does not answer; kDataLoss if what it sends is not what it listed.
Result<std::string> download_model(const FetcherFactory& fetchers, const Wanted& wanted);

}  // namespace coxswain::hub
