// text-generation-router: HTTP in front, one engine loop over one replica behind.

#include "serve/crash_report.h"
#include "serve/router/router_process.h"
#include "serve/standard_streams.h"
#include "serve/stop_signals.h"

int main(int argc, char** argv) {
  coxswain::serve::hold_standard_streams();
  coxswain::serve::report_crashes();
  coxswain::serve::hold_signals();
  return coxswain::serve::run_router(argc, argv);
}
