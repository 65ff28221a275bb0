#pragma once
// What every kind of `coxswain-conformance` shares: options, counts, and the report that prints one
// line for each case.
//
// A kind is one function: it walks over everything of its kind that it finds below data_dir, tells
// the report about each case, and returns the report's counts. Adding a kind is one file with its
// header and one row in conformance.cc.
//
// Thread rule: one thread.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::conformance {

struct ConformanceOptions {
  std::string data_dir;  // laid out like the copy that data/prepare.py makes
  std::string only;      // run cases of this name only; empty = all
  std::string isa;       // forces a kernel set; empty = the best one
  std::size_t n_threads = 1;
  // Where the models of a run find the packed weights of the run before; empty = nowhere. See LoadOptions::cache.
  std::string weights_cache_dir;
  bool ci = false;                       // a skip that is not listed is a failure
  std::vector<std::string> known_skips;  // "kind/name"
};

struct ConformanceCounts {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t skipped = 0;
};

// Prints a line for each case to standard output and counts. A skip that CI does not know counts as a failure.
class ConformanceReport {
 public:
  // `kind` as on the command line. The options must outlive the report.
  ConformanceReport(std::string_view kind, const ConformanceOptions& options)
      : kind_(kind), options_(options) {}

  // Whether `--only` lets this case run.
  bool wants(std::string_view name) const { return options_.only.empty() || options_.only == name; }

  void pass(std::string_view name, std::string_view detail);
  void fail(std::string_view name, std::string_view what);
  void skip(std::string_view name, std::string_view reason);

  const ConformanceCounts& counts() const { return counts_; }

 private:
  std::string kind_;
  const ConformanceOptions& options_;
  ConformanceCounts counts_;
};

// Names of the entries of data_dir/sub, sorted; empty if there is no such folder.
std::vector<std::string> conformance_cases(const ConformanceOptions& options, std::string_view sub);

}  // namespace coxswain::conformance
