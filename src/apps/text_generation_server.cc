// text-generation-server: one shard, which executes steps.

#include <string_view>
#include <vector>

#include "apps/quantize_command.h"
#include "serve/crash_report.h"
#include "serve/model_download.h"
#include "serve/shard/shard_process.h"
#include "serve/standard_streams.h"
#include "serve/stop_signals.h"

int main(int argc, char** argv) {
  coxswain::serve::hold_standard_streams();
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "download-weights" || verb == "quantize") {
    const std::vector<std::string_view> words(argv + 2, argv + argc);
    return verb == "quantize" ? coxswain::apps::quantize_model(words)
                              : coxswain::serve::download_weights(words);
  }
  coxswain::serve::report_crashes();
  coxswain::serve::hold_signals();
  return coxswain::serve::run_shard(argc, argv);
}
