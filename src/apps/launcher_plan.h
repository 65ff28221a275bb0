#pragma once
// LauncherPlan: what text-generation-launcher will start, decided and checked before anything runs.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "options/options.h"
#include "supervise/child_process.h"

namespace coxswain::apps {

struct LauncherPlan {
  std::string model_id;
  std::string socket;  // of shard 0
  std::string shard_status_file;
  std::string router_status_file;
  supervise::ChildSpec shard;
  supervise::ChildSpec router;
  std::chrono::milliseconds grace{};
};

// The rules that concern several options at once, in TGI's order and words.
// Errors: kInvalidArgument with the text.
Status validate_launcher_options(const options::OptionValues& values);

// What keeps the model folder from being served, seen without reading weights. Ok, or a cause;
// `cure` is filled then.
Status check_model_folder(const std::string& model_id, std::string& cure);

// True if an address and port can be bound right now; the message says why not.
Status check_port_free(const std::string& hostname, std::uint16_t port);

// REQUIRES: validated options. `run_folder` is the private folder for sockets, `program_folder`
// holds the other binaries.
LauncherPlan make_launcher_plan(const options::OptionValues& values,
                                const std::string& run_folder,
                                const std::string& program_folder);

}  // namespace coxswain::apps
