#include "conformance/conformance.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <system_error>

#include "conformance/grammar.h"
#include "conformance/models.h"
#include "conformance/quant.h"
#include "conformance/sampling.h"
#include "conformance/templates.h"
#include "conformance/tokenizers.h"

namespace coxswain::conformance {
namespace {

namespace fs = std::filesystem;

struct ConformanceKind {
  std::string_view name;
  ConformanceCounts (*run)(const ConformanceOptions&);
};

// One row for each kind, in the order in which they run without a kind on the command line.
std::span<const ConformanceKind> conformance_kinds() {
  static constexpr std::array kKinds{
      ConformanceKind{"grammar", run_grammar_conformance},
      ConformanceKind{"models", run_models_conformance},
      ConformanceKind{"quant", run_quant_conformance},
      ConformanceKind{"sampling", run_sampling_conformance},
      ConformanceKind{"templates", run_templates_conformance},
      ConformanceKind{"tokenizers", run_tokenizers_conformance},
  };
  return kKinds;
}

void print_line(std::string_view word,
                std::string_view kind,
                std::string_view name,
                std::string_view detail) {
  std::printf("%-4s %.*s/%-28.*s %.*s\n",
              std::string(word).c_str(),
              static_cast<int>(kind.size()),
              kind.data(),
              static_cast<int>(name.size()),
              name.data(),
              static_cast<int>(detail.size()),
              detail.data());
  std::fflush(stdout);
}

std::string environment(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read before any thread starts
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// One "kind/name" a line, then blanks and the reason; '#' starts a comment.
std::vector<std::string> read_known_skips(const std::string& path) {
  std::vector<std::string> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::string word = line.substr(0, line.find_first_of(" \t#"));
    if (!word.empty()) out.push_back(word);
  }
  return out;
}

struct CommandLine {
  ConformanceOptions options;
  std::vector<std::string> kinds;
  std::string known_skips_path;
};

constexpr std::string_view kUsage =
    "usage: coxswain-conformance [KIND...] [--data DIR] [--only NAME] [--isa SET] [--threads N] "
    "[--known-skips FILE] [--weights-cache-dir DIR]\n";

std::optional<CommandLine> parse_command_line(std::span<char*> args) {
  CommandLine out;
  out.options.data_dir = environment("COXSWAIN_DATA");
  out.options.ci = environment("CI") == "true";
  const std::string source_dir = environment("COXSWAIN_SOURCE_DIR");
  out.known_skips_path =
      (source_dir.empty() ? std::string(".") : source_dir) + "/tests/conformance/known_skips.txt";
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string arg = args[i];
    if (!arg.starts_with("--")) {
      out.kinds.push_back(arg);
      continue;
    }
    if (i + 1 == args.size()) return std::nullopt;
    const std::string value = args[++i];
    if (arg == "--data") {
      out.options.data_dir = value;
    } else if (arg == "--only") {
      out.options.only = value;
    } else if (arg == "--isa") {
      out.options.isa = value;
    } else if (arg == "--weights-cache-dir") {
      out.options.weights_cache_dir = value;
    } else if (arg == "--known-skips") {
      out.known_skips_path = value;
    } else if (arg == "--threads") {
      const auto read =
          std::from_chars(value.data(), value.data() + value.size(), out.options.n_threads);
      if (read.ec != std::errc() || read.ptr != value.data() + value.size() ||
          out.options.n_threads == 0)
        return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  out.options.known_skips = read_known_skips(out.known_skips_path);
  return out;
}

int run_conformance(std::span<char*> args) {
  const auto asks_for_help = [](std::string_view arg) { return arg == "--help" || arg == "-h"; };
  if (std::ranges::any_of(args, asks_for_help)) {
    std::fputs(kUsage.data(), stdout);
    return 0;
  }
  const auto command = parse_command_line(args);
  if (!command) {
    std::fputs(kUsage.data(), stderr);
    return 2;
  }
  if (command->options.data_dir.empty() || !fs::is_directory(command->options.data_dir)) {
    std::fprintf(
        stderr,
        "coxswain-conformance: no data folder \"%s\": give --data DIR or set COXSWAIN_DATA\n",
        command->options.data_dir.c_str());
    return 2;
  }
  for (const std::string& wanted : command->kinds) {
    const auto known = conformance_kinds();
    if (std::none_of(known.begin(), known.end(), [&](const ConformanceKind& kind) {
          return kind.name == wanted;
        })) {
      std::fprintf(stderr, "coxswain-conformance: no kind \"%s\"\n", wanted.c_str());
      return 2;
    }
  }
  ConformanceCounts total;
  for (const ConformanceKind& kind : conformance_kinds()) {
    const auto& wanted = command->kinds;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), kind.name) == wanted.end())
      continue;
    const ConformanceCounts counts = kind.run(command->options);
    total.passed += counts.passed;
    total.failed += counts.failed;
    total.skipped += counts.skipped;
  }
  if (total.passed + total.failed + total.skipped == 0) {
    std::fprintf(stderr,
                 "coxswain-conformance: nothing to run below %s\n",
                 command->options.data_dir.c_str());
    return 1;
  }
  std::printf("%zu passed, %zu failed, %zu skipped\n", total.passed, total.failed, total.skipped);
  return total.failed == 0 ? 0 : 1;
}

}  // namespace

void ConformanceReport::pass(std::string_view name, std::string_view detail) {
  ++counts_.passed;
  print_line("ok", kind_, name, detail);
}

void ConformanceReport::fail(std::string_view name, std::string_view what) {
  ++counts_.failed;
  print_line("FAIL", kind_, name, what);
}

void ConformanceReport::skip(std::string_view name, std::string_view reason) {
  const std::string key = kind_ + "/" + std::string(name);
  const auto& known = options_.known_skips;
  if (options_.ci && std::find(known.begin(), known.end(), key) == known.end()) {
    fail(name, "skipped, but not in the list of known skips: " + std::string(reason));
    return;
  }
  ++counts_.skipped;
  print_line("skip", kind_, name, reason);
}

std::vector<std::string> conformance_cases(const ConformanceOptions& options,
                                           std::string_view sub) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(options.data_dir) / sub, error)) {
    out.push_back(entry.path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace coxswain::conformance

int main(int argc, char** argv) {
  return coxswain::conformance::run_conformance(
      std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
}
