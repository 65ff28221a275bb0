#pragma once
// FileWatch calls back once some of its files have changed, or somebody asks for it.
//
// It looks twice a second. A change counts when two looks in a row saw the same, so that a file is not read while it
// is being written, and a certificate not before its key is there. Files are told apart by device, number, size and
// time, behind links: a link that points elsewhere is a change.
//
// Thread rule: add() and start() by one thread, in this order; ask() from any. Callbacks run on a thread of its own.

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/mutex.h"

namespace coxswain::serve {

class FileWatch {
 public:
  FileWatch() = default;
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Files whose change `changed` is called for. Empty paths are left out.
  void add(std::vector<std::string> paths, std::function<void()> changed);
  // Does nothing if nothing was added.
  void start();
  // Calls back for all, changed or not.
  void ask();

 private:
  using Stamp = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
  struct Entry {
    std::vector<std::string> paths;
    std::function<void()> changed;
    std::vector<Stamp> known;  // when they were read
    std::vector<Stamp> last;   // at the last look
  };

  static std::vector<Stamp> look(const std::vector<std::string>& paths);
  void watch();

  std::vector<Entry> entries_;
  base::Mutex mu_;
  base::CondVar wake_;
  bool asked_ GUARDED_BY(mu_) = false;
  bool over_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace coxswain::serve
