#include "apps/pull.h"

#include <cstdio>
#include <string>
#include <unistd.h>

#include "apps/environment.h"
#include "hub/curl_fetcher.h"
#include "hub/download.h"

namespace coxswain::apps {
namespace {

// A line for each file; on a terminal one that changes.
class Report {
 public:
  void operator()(const hub::Progress& at) {
    const bool is_done = at.file_bytes == at.file_bytes_all;
    const auto percent = [](std::uint64_t part, std::uint64_t all) {
      return all == 0 ? 100.0 : 100.0 * static_cast<double>(part) / static_cast<double>(all);
    };
    const double now = percent(at.file_bytes, at.file_bytes_all);
    if (is_done ? at.file == told_ : !lives_ || (at.file == shown_ && now < last_ + 0.1)) return;
    shown_ = at.file;
    last_ = now;
    if (is_done) told_ = at.file;
    std::fprintf(stderr,
                 "%s%s %.1f %% of %llu bytes, in all %.1f %%%s",
                 lives_ ? "\r\x1b[K" : "",
                 at.file.c_str(),
                 now,
                 static_cast<unsigned long long>(at.file_bytes_all),
                 percent(at.model_bytes, at.model_bytes_all),
                 is_done ? "\n" : "");
  }

 private:
  bool lives_ = isatty(STDERR_FILENO) != 0;
  double last_ = 0;
  std::string shown_;
  std::string told_;
};

Result<hub::Wanted> wanted_of(std::span<const std::string_view> words) {
  hub::Wanted out;
  out.cache = hub_cache_folder();
  if (const std::string revision = variable("REVISION"); !revision.empty()) out.revision = revision;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--revision" && has_value) {
      out.revision = words[++i];
    } else if (words[i] == "--huggingface-hub-cache" && has_value) {
      out.cache = words[++i];
    } else if (out.id.empty() && !words[i].starts_with('-')) {
      out.id = words[i];
    } else {
      return invalid_argument("pull does not understand `" + std::string(words[i]) + "`");
    }
  }
  if (out.id.empty()) return invalid_argument("pull needs org/name or org/name:TYPE");
  if (out.cache.empty()) return invalid_argument("pull needs --huggingface-hub-cache, or HOME");
  if (const std::size_t colon = out.id.find(':'); colon != std::string::npos) {
    out.type = out.id.substr(colon + 1);
    out.id.resize(colon);
  }
  out.token = variable("HF_TOKEN");
  if (const std::string token = variable("HF_API_TOKEN"); !token.empty()) out.token = token;
  if (std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    out.endpoint = endpoint;
  }
  return out;
}

}  // namespace

Status pull_model(std::span<const std::string_view> words) {
  COXSWAIN_ASSIGN_OR_RETURN(hub::Wanted wanted, wanted_of(words));
  if (const std::string offline = variable("HF_HUB_OFFLINE"); !offline.empty() && offline != "0") {
    return {Code::kFailedPrecondition, "nothing is downloaded while HF_HUB_OFFLINE is set"};
  }
  if (wanted.token.find_first_of("\r\n") != std::string::npos) {
    return {Code::kFailedPrecondition, "HF_TOKEN must be one line"};
  }
  Report report;
  wanted.tell = [&](const hub::Progress& at) { report(at); };
  const bool plain_http = wanted.endpoint.starts_with("http://");
  COXSWAIN_ASSIGN_OR_RETURN(
      const std::string folder,
      hub::download_model([&] { return hub::make_curl_fetcher(plain_http); }, wanted));
  std::printf("%s\n", folder.c_str());
  return {};
}

}  // namespace coxswain::apps
