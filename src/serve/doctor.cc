#include "serve/doctor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include <coxswain/status.h>
#include <coxswain/types.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/cpu_topology.h"
#include "base/machine.h"
#include "base/shell_words.h"
#include "serve/launcher_plan.h"
#include "serve/model_download.h"
#include "serve/model_source.h"
#include "serve/port_lease.h"
#include "serve/runtime_environment.h"
#include "serve/start_failure.h"
#include "serve/text_files.h"
#include "supervise/run_folder.h"

namespace coxswain::serve {
namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kDiskBytesFew = kGiB;

std::string in_gib(std::uint64_t bytes) {
  std::array<char, 32> out;
  std::snprintf(
      out.data(), out.size(), "%.2f GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
  return out.data();
}

// "cause; cure" taken apart.
Finding failed(std::string name, const Status& status) {
  const StartFailure failure = make_start_failure("", status, "", kExitFailure);
  return {Level::kFail, std::move(name), failure.cause, failure.cure};
}

Finding look_at_processor() {
  std::string model;
  std::string sets;
  for (const auto& [name, value] : runtime_environment()) {
    if (name == "CPU") model = value;
    if (name == "Instruction sets") sets = value;
  }
  if (sets.find("avx2") != std::string::npos) return {Level::kOk, "processor", model + ": " + sets};
  return {Level::kWarn,
          "processor",
          model + " has no AVX2",
          "Answers are right and slow; with AVX2, AVX-512 or AMX they come several times as fast."};
}

Finding look_at_cores(const options::OptionValues& values, const fs::path& root) {
  const std::vector<int> allowed = base::allowed_cpus();
  const std::size_t n_cores = base::order_by_core(allowed, root).n_cores;
  const std::size_t n_usable = base::usable_cores(allowed, root);
  std::string text = std::to_string(n_usable) + " cores to use; " + std::to_string(allowed.size()) +
                     " processors on " + std::to_string(n_cores) + " cores are allowed";
  if (n_usable < n_cores) text += ", a quota of the control group allows less";
  const std::size_t n_replicas = n_replicas_max(values);
  const std::size_t wanted = std::max<std::size_t>(values.get<"threads">(), 1) * n_replicas;
  if (wanted <= n_usable) return {Level::kOk, "cores", text};
  return {Level::kWarn,
          "cores",
          text + ", but " + std::to_string(wanted) + " threads would compute",
          "Lower --threads or --replicas: threads beyond the cores wait for one another."};
}

Finding look_at_memory(const options::OptionValues& values, const fs::path& root) {
  const auto available = base::available_memory_bytes(root);
  if (!available.ok())
    return {Level::kFail, "memory", available.status().message(), "Set --memory-bytes-max."};
  const std::uint64_t wanted = values.get<"memory-bytes-max">();
  std::string text = in_gib(*available) + " to take before a limit is reached";
  if (wanted <= *available) return {Level::kOk, "memory", text};
  return {Level::kFail,
          "memory",
          text + ", --memory-bytes-max is " + in_gib(wanted),
          "Lower it, or end other programs."};
}

Finding look_at_huge_pages(const fs::path& root) {
  std::ifstream file(root / "sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  if (line.find("[always]") != std::string::npos || line.find("[madvise]") != std::string::npos)
    return {Level::kOk, "huge pages", line};
  return {Level::kWarn,
          "huge pages",
          line.empty() ? "the kernel has none" : line,
          "As root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; weights are read "
          "faster then."};
}

// Bytes that all cores read in a second, the best of some rounds.
double read_rate(std::size_t n_threads, std::size_t bytes_each) {
  const std::size_t n_each = bytes_each / sizeof(std::uint64_t);
  std::vector<std::uint64_t> words(n_each * n_threads, 1);
  std::vector<std::uint64_t> sums(n_threads);
  double best = 0;
  for (int round = 0; round < 4; ++round) {
    const TimePoint began = Clock::now();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < n_threads; ++i) {
      threads.emplace_back([&, i] {
        const auto begin = words.begin() + static_cast<std::ptrdiff_t>(i * n_each);
        sums[i] = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(n_each), sums[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    best = std::max(best, static_cast<double>(words.size() * sizeof(std::uint64_t)) / seconds);
  }
  // What nobody looks at might not be computed.
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}) == 0 ? 0 : best;
}

Finding look_at_bandwidth(const options::OptionValues& values) {
  constexpr std::size_t kThreadsMax = 16;
  const std::size_t given = values.get<"threads">();
  const std::size_t n_threads =
      std::clamp<std::size_t>(given != 0 ? given : base::usable_cores(), 1, kThreadsMax);
  // More than caches hold, and far from what control groups kill for.
  constexpr std::uint64_t kBytesMax = std::uint64_t{64} << 20;
  const auto available = base::available_memory_bytes();
  const std::uint64_t spare = available.ok() ? *available / 16 / n_threads : 0;
  if (spare < kBytesMax / 8) return {Level::kOk, "bandwidth", "not measured, for want of memory"};
  const auto rate = static_cast<std::uint64_t>(read_rate(n_threads, std::min(spare, kBytesMax)));
  return {Level::kOk,
          "bandwidth",
          "about " + in_gib(rate) + "/s read by " + std::to_string(n_threads) +
              " threads; each token of a single request reads all weights that it uses"};
}

Finding look_at_shared_memory() {
  constexpr std::size_t kBytes = 1 << 20;
  const int fd = memfd_create("coxswain-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void* mapped = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, kBytes) == 0)
    mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  if (mapped == MAP_FAILED) {
    return {Level::kWarn,
            "shared memory",
            "memfd_create is refused",
            "KV blocks pass through sockets then, which is slower (--roles, --kv-spill-path)."};
  }
  munmap(mapped, kBytes);
  return {Level::kOk, "shared memory", "memfd_create is allowed"};
}

Finding look_at_port(const options::OptionValues& values,
                     std::uint16_t port,
                     const std::string& option) {
  const auto lease = PortLease::take(values.get<"hostname">(), port, option);
  if (!lease.ok()) return failed(option, lease.status());
  const std::string where = values.get<"hostname">() + " " + std::to_string(lease->port());
  const bool needs_key = values.get<"api-key">() || values.get<"api-keys-path">();
  const bool is_local =
      values.get<"hostname">() == "127.0.0.1" || values.get<"hostname">() == "::1";
  if (option != "--port" || needs_key || is_local) return {Level::kOk, option, where + " is free"};
  return {Level::kWarn,
          option,
          where + " is free, and whoever reaches it can use the server",
          "Set API_KEY, or --hostname 127.0.0.1 for this machine alone."};
}

Finding look_at_open_files(const options::OptionValues& values) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::uint64_t wanted = values.get<"connections-max">() + 128;
  const std::string text = std::to_string(limit.rlim_max) + " open files are allowed";
  if (limit.rlim_max >= wanted) return {Level::kOk, "open files", text};
  return {Level::kWarn,
          "open files",
          text + ", --connections-max needs " + std::to_string(wanted),
          "Raise the hard limit (ulimit -Hn), or lower --connections-max."};
}

Finding look_at_run_folder() {
  const char* given = std::getenv("TMPDIR");
  const std::string parent = given == nullptr || *given == '\0' ? "/tmp" : given;
  const auto folder = supervise::RunFolder::create(parent);
  if (folder.ok()) return {Level::kOk, "sockets", "a private folder below " + parent};
  return {Level::kFail,
          "sockets",
          folder.status().message(),
          "Set TMPDIR to a folder you may write to."};
}

// `bytes_wanted` 0: nobody knows.
Finding look_at_folder(const std::string& name,
                       const std::string& folder,
                       std::uint64_t bytes_wanted,
                       Level if_not) {
  std::error_code error;
  fs::path there = folder;
  while (!there.empty() && !fs::exists(there, error) && there != there.parent_path())
    there = there.parent_path();
  if (there.empty()) there = ".";
  if (!fs::is_directory(there, error) || access(there.c_str(), W_OK | X_OK) != 0)
    return {if_not,
            name,
            folder + " cannot be written",
            "Make it writable for this user, or name another folder."};
  const fs::space_info space = fs::space(there, error);
  if (error) return {if_not, name, folder + ": " + error.message(), "Name another folder."};
  const std::string text = folder + ", " + in_gib(space.available) + " free";
  if (space.available >= std::max(bytes_wanted, kDiskBytesFew)) return {Level::kOk, name, text};
  return {Level::kWarn, name, text, "Make room there, or name another folder."};
}

std::string form_of(const std::string& folder) {
  if (fs::path(folder).extension() == ".gguf") return "a GGUF file";
  std::uint64_t bytes = 0;
  std::size_t n_files = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++n_files;
    bytes += entry.file_size(error);
  }
  return std::to_string(n_files) + " safetensors files, " + in_gib(bytes);
}

// The memory plan of the server, which has the models' code.
Finding look_at_plan(const options::OptionValues& values,
                     const DoctorSite& site,
                     const std::string& folder) {
  std::string command = base::shell_quoted(site.program_folder + "/text-generation-server") +
                        " serve " + base::shell_quoted(folder) + " --plan";
  std::vector<std::string> arguments =
      options::forwarded_arguments(values, options::Binary::kServer);
  if (const std::size_t n_replicas = n_replicas_max(values); n_replicas > 1) {
    // The part of one.
    std::uint64_t all = values.get<"memory-bytes-max">();
    if (const auto available = base::available_memory_bytes(); all == 0 && available.ok())
      all = *available;
    std::erase_if(arguments,
                  [](const std::string& a) { return a.starts_with("--memory-bytes-max="); });
    arguments.push_back("--memory-bytes-max=" + std::to_string(all / n_replicas));
  }
  for (const std::string& argument : arguments) command += " " + base::shell_quoted(argument);
  std::string said;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");  // NOLINT(cert-env33-c): words are quoted
  if (pipe == nullptr)
    return {Level::kFail, "memory plan", "no process can be started", "Raise ulimit -u."};
  std::array<char, 512> part;
  for (std::size_t n = 0; (n = fread(part.data(), 1, part.size(), pipe)) > 0;)
    said.append(part.data(), n);
  const int status = pclose(pipe);
  constexpr std::string_view kBegins = "memory   ";
  const std::size_t at = said.find(kBegins);
  const std::string memory =
      at == std::string::npos
          ? ""
          : said.substr(at + kBegins.size(), said.find('\n', at) - at - kBegins.size());
  if (status == 0 && !memory.empty()) return {Level::kOk, "memory plan", memory};
  std::string cause = "text-generation-server --plan failed";
  std::string cure;
  for (std::size_t begin = 0; begin < said.size();) {
    const std::size_t end = std::min(said.find('\n', begin), said.size());
    const auto failure = read_failure_line(std::string_view(said).substr(begin, end - begin));
    begin = end + 1;
    if (!failure) continue;
    cause = failure->cause;
    cure = said.substr(std::min(begin, said.size()), said.find('\n', begin) - begin);
  }
  return {Level::kFail, "memory plan", cause, cure};
}

void look_at_model(const options::OptionValues& values,
                   const DoctorSite& site,
                   std::vector<Finding>& out) {
  const auto model_id = values.get<"model-id">();
  if (!model_id) return;
  const HubCache hub{.folder = hub_cache_folder(values.get<"huggingface-hub-cache">().value_or(""),
                                                values.get<"HF_HUB_CACHE">().value_or(""),
                                                values.get<"HF_HOME">().value_or("")),
                     .revision = values.get<"revision">()};
  const ModelSource model = find_model(*model_id, site.program_folder, hub);
  std::string cure;
  const Status status = check_model_folder(model, bundled_models(site.program_folder), cure);
  if (status.ok()) {
    out.push_back({Level::kOk, "model", model.folder + ": " + form_of(model.folder)});
    out.push_back(look_at_plan(values, site, model.folder));
  } else if (may_download(*model_id)) {
    out.push_back({Level::kWarn,
                   "model",
                   *model_id + " is not here, it would be downloaded",
                   "coxswain pull " + *model_id + " brings it."});
    out.push_back(look_at_folder("hub cache", hub.folder, 0, Level::kFail));
  } else {
    out.push_back({Level::kFail, "model", status.message(), cure});
  }
}

}  // namespace

std::vector<Finding> examine(const options::OptionValues& values, const DoctorSite& site) {
  std::vector<Finding> out{look_at_processor(),
                           look_at_cores(values, site.root),
                           look_at_memory(values, site.root),
                           look_at_huge_pages(site.root)};
  if (site.measures_bandwidth) out.push_back(look_at_bandwidth(values));
  out.push_back(look_at_shared_memory());
  out.push_back(look_at_open_files(values));
  out.push_back(look_at_run_folder());
  out.push_back(look_at_port(values, values.get<"port">(), "--port"));
  if (const auto port = values.get<"prometheus-port">().value_or(0); port != 0)
    out.push_back(look_at_port(values, port, "--prometheus-port"));
  if (const std::string& folder = values.get<"weights-cache-dir">(); folder != "off")
    out.push_back(look_at_folder("--weights-cache-dir", folder, 0, Level::kFail));
  if (const auto folder = values.get<"kv-spill-path">())
    out.push_back(look_at_folder(
        "--kv-spill-path", *folder, values.get<"kv-spill-bytes-max">(), Level::kFail));
  if (const Status status = validate_launcher_options(values); !status.ok())
    out.push_back({Level::kFail, "options", status.message(), kOptionCure});
  for (const auto& failure : {check_text_files(values), check_security_files(values)})
    if (failure) out.push_back({Level::kFail, "files", failure->cause, failure->cure});
  look_at_model(values, site, out);
  return out;
}

std::string text_of(const std::vector<Finding>& findings) {
  constexpr std::array<std::string_view, 3> kWords{"ok    ", "warn  ", "fail  "};
  constexpr std::size_t kNameWidth = 14;
  std::string out;
  for (const Finding& finding : findings) {
    out += kWords[static_cast<std::size_t>(finding.level)];
    out += finding.name + std::string(kNameWidth - std::min(kNameWidth, finding.name.size()), ' ') +
           "  " + finding.text + "\n";
    if (!finding.cure.empty()) out += "      " + finding.cure + "\n";
  }
  return out;
}

bool any_fails(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings,
                             [](const Finding& finding) { return finding.level == Level::kFail; });
}

}  // namespace coxswain::serve
