#pragma once
// download_model: what the launcher does about a model of the hub that is not in the cache: `coxswain pull`, in a
// process of its own, before any other is started. So the launcher links nothing that speaks to a network, and a signal
// ends a download at once; the next start goes on with it.
//
// Thread rule: that of supervise::Supervisor.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "serve/model_source.h"
#include "serve/start_failure.h"
#include "telemetry/log.h"

namespace coxswain::serve {

// Whether a download is worth trying: org/name or org/name:TYPE, nothing on this machine has the name, and
// HF_HUB_OFFLINE is not set.
bool may_download(const std::string& model_id);

struct DownloadEnd {
  bool stopped = false;  // by a signal
  std::optional<StartFailure> failure = {};
};
DownloadEnd download_model(const std::string& model_id,
                           const std::string& program_folder,
                           const HubCache& hub,
                           telemetry::Logger& log);

// The words behind `text-generation-server download-weights` as those behind `coxswain`: TGI's options, of which those
// that change nothing here are dropped. Errors: kInvalidArgument.
Result<std::vector<std::string>> pull_words(std::span<const std::string_view> words);

// Does it, in the place of this process. Returns the exit code where there is nothing to do, or no way to.
int download_weights(std::span<const std::string_view> words);

}  // namespace coxswain::serve
