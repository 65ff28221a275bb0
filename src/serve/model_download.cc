#include "serve/model_download.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <unistd.h>
#include <utility>

#include "supervise/supervisor.h"

namespace coxswain::serve {
namespace {

constexpr std::string_view kProgram = "coxswain";
constexpr const char* kCure =
    "The next start goes on where this one ended. A model that is on this machine is named by its "
    "folder.";

bool is_part_of_id(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text.front() != '.' && std::ranges::all_of(text, allowed);
}

supervise::ChildSpec pull_of(const std::string& model_id,
                             const std::string& program_folder,
                             const HubCache& hub) {
  supervise::ChildSpec out{.name = "download",
                           .argv = {program_folder + "/" + std::string(kProgram), "pull", model_id},
                           .environment = {},
                           .environment_removed = {}};
  if (hub.revision) out.argv.insert(out.argv.end(), {"--revision", *hub.revision});
  if (!hub.folder.empty()) out.argv.insert(out.argv.end(), {"--huggingface-hub-cache", hub.folder});
  return out;
}

// The message of a program that names itself first.
std::string message_of(std::string_view line) {
  const std::string prefix = std::string(kProgram) + ": ";
  return std::string(line.starts_with(prefix) ? line.substr(prefix.size()) : line);
}

}  // namespace

bool may_download(const std::string& model_id) {
  const char* offline = std::getenv("HF_HUB_OFFLINE");
  if (offline != nullptr && *offline != '\0' && std::string_view(offline) != "0") return false;
  const std::string id = model_id.substr(0, model_id.find(':'));
  const std::size_t slash = id.find('/');
  std::error_code error;
  return slash != std::string::npos && is_part_of_id(id.substr(0, slash)) &&
         is_part_of_id(id.substr(slash + 1)) && !std::filesystem::exists(id, error);
}

DownloadEnd download_model(const std::string& model_id,
                           const std::string& program_folder,
                           const HubCache& hub,
                           telemetry::Logger& log) {
  std::string last_line;
  std::optional<supervise::Exit> ended;
  supervise::SupervisorEvents events;
  events.on_line = [&](const std::string&, supervise::Stream stream, std::string_view line) {
    if (stream == supervise::Stream::kStdout) return;  // the folder
    last_line = line;
    if (!line.starts_with(kProgram)) log.info("Download: " + std::string(line));
  };
  events.on_exit = [&](const std::string&, const supervise::Exit& exit, auto) { ended = exit; };
  events.on_start_error = [](const std::string&, const Status&) {};
  events.on_ready = [](const std::string&, std::chrono::milliseconds) {};
  events.on_stop = [&](std::string_view signal) {
    log.info("Terminating download", {{"signal", signal}});
  };
  events.on_hangup = [] {};
  log.info("Starting check and download process for " + model_id);
  // A service that is never ready: its end is the end of the run.
  supervise::Supervisor supervisor({.hangup_stops = true, .restarts = {}}, std::move(events));
  supervise::ServiceSpec service;
  service.child = pull_of(model_id, program_folder, hub);
  service.ready = [] { return false; };
  supervisor.add(std::move(service), 0);
  const supervise::RunResult result = supervisor.run();
  if (ended && ended->ok()) {
    log.info("Successfully downloaded weights for " + model_id);
    return {};
  }
  if (result.outcome == supervise::Outcome::kStopped) return {.stopped = true};
  const Status why = !result.status.ok() ? result.status
                     : last_line.empty()
                         ? internal_error("the download ended: " + ended->describe())
                         : Status(Code::kUnavailable, message_of(last_line));
  return {.failure = make_start_failure("DownloadError", why, kCure, kExitModel)};
}

Result<std::vector<std::string>> pull_words(std::span<const std::string_view> words) {
  constexpr std::string_view kNoValue[] = {"--auto-convert",
                                           "--no-auto-convert",
                                           "--json-output",
                                           "--trust-remote-code",
                                           "--no-merge-lora"};
  std::vector<std::string> out{"pull"};
  std::string id;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const bool takes_value =
        word == "--revision" || word == "--extension" || word == "--logger-level";
    if (takes_value && i + 1 == words.size())
      return invalid_argument("`" + std::string(word) + "` needs a value");
    if (word == "--revision") {
      out.insert(out.end(), {std::string(word), std::string(words[++i])});
    } else if (word == "--extension") {
      if (words[++i] != ".safetensors")
        return invalid_argument("`--extension` is .safetensors here, not " + std::string(words[i]));
    } else if (takes_value) {
      ++i;
    } else if (word == "--merge-lora") {
      return invalid_argument("`--merge-lora` is not supported yet");
    } else if (std::ranges::find(kNoValue, word) == std::end(kNoValue)) {
      if (!id.empty() || word.starts_with('-'))
        return invalid_argument("unexpected argument `" + std::string(word) + "`");
      id = word;
    }
  }
  if (id.empty()) return invalid_argument("it needs a model: org/name or org/name:TYPE");
  out.insert(out.begin() + 1, id);
  return out;
}

int download_weights(std::span<const std::string_view> words) {
  auto pull = pull_words(words);
  if (!pull.ok()) {
    std::fprintf(
        stderr, "text-generation-server download-weights: %s\n", pull.status().message().c_str());
    return kExitUsage;
  }
  std::error_code error;
  if (std::filesystem::exists((*pull)[1], error)) {
    std::puts("Files are already present on the host. Skipping download.");
    return 0;
  }
  const std::string program = program_folder() + "/" + std::string(kProgram);
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (std::string& word : *pull) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  std::fprintf(stderr, "%s cannot be started: %s\n", program.c_str(), std::strerror(errno));
  return kExitFailure;
}

}  // namespace coxswain::serve
