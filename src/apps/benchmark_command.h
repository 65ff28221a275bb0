#pragma once
// What text-generation-benchmark does: times batches on a shard and prints TGI's tables.

namespace coxswain::apps {

// The arguments of main(). An exit code (serve/start_failure.h).
int run_benchmark(int argc, char** argv);

}  // namespace coxswain::apps
