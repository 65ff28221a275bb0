// text-generation-launcher: starts one shard and the router, and keeps them running.

#include "serve/crash_report.h"
#include "serve/launcher_process.h"
#include "serve/standard_streams.h"
#include "supervise/supervisor.h"

int main(int argc, char** argv) {
  coxswain::serve::hold_standard_streams();
  coxswain::serve::report_crashes();
  coxswain::supervise::Supervisor::block_signals();
  return coxswain::serve::run_launcher(argc, argv);
}
