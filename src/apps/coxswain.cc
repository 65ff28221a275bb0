// coxswain: one program for who has one machine and a model. Some of its verbs are those of the other programs.

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "apps/chat_command.h"
#include "apps/migrate_command.h"
#include "apps/program.h"
#include "apps/pull.h"
#include "fleet/import/import.h"
#include "fleet/top/fleet_page.h"
#include "fleet/top/http_get.h"
#include "options/completions.h"
#include "options/options.h"
#include "serve/admin_address.h"
#include "serve/doctor.h"
#include "serve/model_source.h"

namespace coxswain::apps {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::size_t kFileBytesMax = std::size_t{16} << 20;

constexpr std::string_view kUsage =
    "usage: coxswain VERB ...\n"
    "\n"
    "  serve MODEL            serves a model on this machine alone; further words are options of "
    "text-generation-launcher,\n"
    "                         such as --port 8080 or --quantize int8\n"
    "  chat MODEL             a conversation in the terminal, without a server; [--system TEXT] "
    "[--temperature T] (0: greedy)\n"
    "                         [--seed N] [--max-new-tokens N] [--quantize FORM] [--threads N]. A "
    "line of stdin is a message\n"
    "  plan MODEL             says what serve would start and where its memory would go; the same "
    "options\n"
    "  fleet import FILE...   prints how text-generation-launcher is started for a set-up of "
    "BlitzScale, and what of it\n"
    "                         has no equivalent. FILEs: its deployment (JSON with init_states, "
    "replicas, machines), its\n"
    "                         list of stubs (JSON), its experiment template (TOML); at most one of "
    "each\n"
    "  fleet top WHERE        shows the replicas of a server, each second anew; WHERE: HOST:PORT "
    "or "
    "unix:PATH of its\n"
    "                         --admin-listen. One page if stdout is no terminal\n"
    "  completions WHAT       prints completions of all programs for bash, zsh or fish, or with "
    "`man "
    "PROGRAM` its manual page\n"
    "  doctor [OPTIONS]       says whether this machine gives what text-generation-launcher needs "
    "with these OPTIONS of it,\n"
    "                         such as --model-id MODEL; exit code 1 if something would fail\n"
    "  migrate -- COMMAND...  prints text-generation-launcher's command line for one of TGI, vLLM, "
    "llama-server, Ollama,\n"
    "                         LMDeploy or TensorRT-LLM, and what has no equivalent; [--from "
    "PROGRAM] "
    "[--file FILE] instead of\n"
    "                         -- COMMAND: a command, a Modelfile or a config.pbtxt; - is stdin\n"
    "  pull MODEL             downloads org/name of the Hugging Face hub, or the one GGUF model "
    "org/name:TYPE, into the\n"
    "                         hub's cache and prints its folder; [--revision R] "
    "[--huggingface-hub-cache FOLDER]\n"
    "  quantize MODEL FOLDER  writes a quantised copy of a model; `coxswain quantize --help` has "
    "its "
    "options\n"
    "  --help, -h             prints this\n"
    "\n"
    "Exit codes: 0 ok, 1 a file cannot be read or is none of these, no server answers, or a model "
    "is not whole, 2 usage.\n";

int usage_error(const std::string& what) {
  std::fprintf(
      stderr,
      "coxswain: %s. There is: chat MODEL, completions WHAT, doctor, fleet import FILE..., "
      "fleet top WHERE, migrate -- COMMAND..., plan MODEL, pull MODEL, quantize MODEL "
      "FOLDER, serve MODEL (coxswain --help)\n",
      what.c_str());
  return 2;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::kNotFound, path + " cannot be opened");
  std::string out;
  out.resize(kFileBytesMax + 1);
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  if (in.bad()) return Status(Code::kNotFound, path + " cannot be read");
  out.resize(static_cast<std::size_t>(in.gcount()));
  if (out.size() > kFileBytesMax) {
    return invalid_argument(path + " must be at most " + std::to_string(kFileBytesMax) + " bytes");
  }
  return out;
}

int import_fleet(Words paths) {
  if (paths.empty()) return usage_error("fleet import needs a FILE");
  std::vector<std::string> texts;
  for (const std::string_view path : paths) {
    auto text = read_file(std::string(path));
    if (!text.ok()) {
      std::fprintf(stderr, "coxswain: %s\n", text.status().message().c_str());
      return 1;
    }
    texts.push_back(std::move(text).value());
  }
  std::vector<fleet::ImportFile> files;
  for (std::size_t i = 0; i < paths.size(); ++i) files.push_back({paths[i], texts[i]});
  const auto imported = fleet::import_setup(files);
  if (!imported.ok()) {
    std::fprintf(stderr, "coxswain: %s\n", imported.status().message().c_str());
    return 1;
  }
  std::fputs(fleet::text_of(imported.value()).c_str(), stdout);
  return 0;
}

Result<json::Value> ask(const serve::AdminAddress& server) {
  COXSWAIN_ASSIGN_OR_RETURN(
      const std::string body,
      fleet::http_get(server.host, server.port, "/fleet", std::chrono::seconds(5)));
  return json::parse(body);
}

// Until the server answers no more, or once if nobody looks.
Status show_fleet(const serve::AdminAddress& server) {
  constexpr std::chrono::seconds kPeriod{1};
  constexpr std::string_view kClear = "\x1b[H\x1b[2J";
  const bool lives = isatty(STDOUT_FILENO) != 0;
  COXSWAIN_ASSIGN_OR_RETURN(json::Value before, ask(server));
  TimePoint asked = Clock::now();
  do {
    std::this_thread::sleep_for(kPeriod);
    COXSWAIN_ASSIGN_OR_RETURN(json::Value now, ask(server));
    const TimePoint then = std::exchange(asked, Clock::now());
    const double seconds = std::chrono::duration<double>(asked - then).count();
    COXSWAIN_ASSIGN_OR_RETURN(const std::string page, fleet::fleet_page(now, before, seconds));
    std::printf("%s%s", lives ? kClear.data() : "", page.c_str());
    std::fflush(stdout);
    before = std::move(now);
  } while (lives);
  return {};
}

int top_fleet(Words words) {
  if (words.size() != 1) return usage_error("fleet top needs HOST:PORT or unix:PATH");
  const auto server = serve::parse_admin_address(words[0]);
  if (!server.ok()) return usage_error(server.status().message());
  const Status status = show_fleet(*server);
  if (status.ok()) return 0;
  std::fprintf(stderr, "coxswain: %s\n", status.message().c_str());
  return 1;
}

int ended(const Status& status) {
  if (status.code() == Code::kInvalidArgument) return usage_error(status.message());
  if (status.ok()) return 0;
  std::fprintf(stderr, "coxswain: %s\n", status.message().c_str());
  return 1;
}

int completions(Words words) {
  if (words.size() == 2 && words[0] == "man") {
    for (const auto binary : options::kBinaries) {
      if (options::program_name(binary) != words[1]) continue;
      std::fputs(options::man_page(binary).c_str(), stdout);
      return 0;
    }
    return usage_error("no manual page for `" + std::string(words[1]) + "`");
  }
  const auto shell = words.size() == 1 ? options::shell_of(words[0]) : std::nullopt;
  if (!shell) return usage_error("completions needs bash, zsh, fish or man PROGRAM");
  std::fputs(options::completion_script(*shell).c_str(), stdout);
  return 0;
}

int doctor(Words words) {
  std::vector<std::string> texts(words.begin(), words.end());
  std::vector<const char*> argv{"coxswain doctor"};
  for (const std::string& text : texts) argv.push_back(text.c_str());
  const auto parsed = options::parse(options::Binary::kLauncher,
                                     static_cast<int>(argv.size()),
                                     argv.data(),
                                     options::environment_of(environ));
  if (parsed.exit_code) {
    std::fputs(parsed.output.c_str(), *parsed.exit_code == 0 ? stdout : stderr);
    return *parsed.exit_code;
  }
  for (const std::string& warning : parsed.warnings)
    std::fprintf(stderr, "coxswain: %s\n", warning.c_str());
  const auto findings = serve::examine(parsed.values, {.program_folder = serve::program_folder()});
  std::fputs(serve::text_of(findings).c_str(), stdout);
  return serve::any_fails(findings) ? 1 : 0;
}

int run(Words words) {
  if (words.empty()) return usage_error("a verb is missing");
  if (words[0] == "--help" || words[0] == "-h") {
    std::fwrite(kUsage.data(), 1, kUsage.size(), stdout);
    return 0;
  }
  if (words[0] == "pull") return ended(pull_model(words.subspan(1)));
  if (words[0] == "completions") return completions(words.subspan(1));
  if (words[0] == "doctor") return doctor(words.subspan(1));
  if (words[0] == "migrate") return ended(migrate_words(words.subspan(1)));
  if (words[0] == "serve") return serve_model(words.subspan(1));
  if (words[0] == "plan") return plan_model(words.subspan(1));
  if (words[0] == "chat") return ended(chat_with_model(words.subspan(1)));
  if (words[0] == "quantize") {
    std::vector<std::string_view> all(words.begin(), words.end());
    return become("text-generation-server", all);
  }
  if (words[0] != "fleet") return usage_error("no verb `" + std::string(words[0]) + "`");
  if (words.size() < 2) return usage_error("fleet needs a verb of its own");
  if (words[1] == "import") return import_fleet(words.subspan(2));
  if (words[1] == "top") return top_fleet(words.subspan(2));
  return usage_error("no verb `fleet " + std::string(words[1]) + "`");
}

}  // namespace
}  // namespace coxswain::apps

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return coxswain::apps::run(words);
}
