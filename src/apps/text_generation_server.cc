// text-generation-server: one shard, which executes steps.

#include "serve/crash_report.h"
#include "serve/shard/shard_process.h"
#include "serve/standard_streams.h"
#include "serve/stop_signals.h"

int main(int argc, char** argv) {
  coxswain::serve::hold_standard_streams();
  coxswain::serve::report_crashes();
  coxswain::serve::hold_signals();
  return coxswain::serve::run_shard(argc, argv);
}
