#pragma once
// LauncherPlan: what text-generation-launcher will start, decided and checked before anything runs.
//
// Thread rule: pure functions of their arguments and the file system.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "options/options.h"
#include "serve/model_source.h"
#include "supervise/child_process.h"

namespace coxswain::serve {

inline constexpr const char* kLogTarget = "text_generation_launcher";

// What the launcher found out about its surroundings.
struct LauncherSite {
  ModelSource model;
  std::string guesser = {};    // folder of what guesses its tokens; empty: nothing does
  std::uint16_t port = 0;      // of the router, already chosen
  int listen_fd = -1;          // bound to it
  int replica_fd = -1;         // the router's end of the channel of --autoscale; -1: none
  int weights_fd = -1;         // in which replicas share their weights; -1: each has its own
  int metrics_fd = -1;         // bound to --prometheus-port; -1: none
  std::string run_folder;      // private, for sockets and status files
  std::string program_folder;  // holds the other binaries
  // What replicas share, looked at once, before any of them takes something. Not needed for a single one.
  std::size_t cores = 1;
  std::uint64_t memory_bytes = 0;
};

// One replica: a shard with the whole model.
struct ReplicaPlan {
  std::string socket;
  std::string status_file;
  supervise::ChildSpec shard;
};

struct LauncherPlan {
  std::string model_id;               // as given
  std::vector<ReplicaPlan> replicas;  // at least one; all that there can be
  std::size_t n_started = 1;          // of these, such that have a process from the start on
  std::string router_status_file;
  supervise::ChildSpec router;
  std::chrono::milliseconds grace{};
};

// How many replicas there can be.
std::size_t n_replicas_max(const options::OptionValues& values);

// The rules that concern several options at once, in TGI's order and words.
// Errors: kInvalidArgument with the text.
Status validate_launcher_options(const options::OptionValues& values);

// REQUIRES: validated options.
LauncherPlan make_launcher_plan(const options::OptionValues& values, const LauncherSite& site);

// For --plan: what would be started, a line each, without the keys, which go by the environment.
std::string plan_text(const LauncherPlan& plan, const std::string& model_folder);

}  // namespace coxswain::serve
