// text-generation-benchmark: times batches on a shard and prints TGI's tables.

#include "apps/benchmark_command.h"
#include "serve/crash_report.h"
#include "serve/standard_streams.h"

int main(int argc, char** argv) {
  coxswain::serve::hold_standard_streams();
  coxswain::serve::report_crashes();
  return coxswain::apps::run_benchmark(argc, argv);
}
