// coxswain-bench-paced-server: text-generation-server whose steps and start take given times; kHelp says more.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "paced_runner.h"
#include "serve/crash_report.h"
#include "serve/shard/shard_process.h"
#include "serve/standard_streams.h"
#include "serve/stop_signals.h"

namespace {

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-paced-server serve ... (as text-generation-server)

A shard that computes as ever, and then waits until a slower machine would have answered. So a fleet of several small
replicas on few cores, or on a busy machine, meets the queues, hand-overs and starts of replicas with a machine each, as
long as what is really computed takes less. coxswain-bench-fleet puts it beside a copy of the launcher.

Environment (the first must be set):
  COXSWAIN_BENCH_PACE   seconds: STEP,DECODE,PROMPT_TOKEN,DECODE_CONTEXT,PROMPT_CONTEXT (bench/step_costs.h)
  COXSWAIN_BENCH_START  STAMP,WARM,COLD,TTL: a start takes WARM seconds, or COLD if the last one that has the file STAMP
                        was longer ago than TTL
)";

using coxswain::TimePoint;

template <typename Value>
bool read(std::string_view& rest, Value& value) {
  const std::string_view word = rest.substr(0, rest.find(','));
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return std::from_chars(word.data(), word.data() + word.size(), value).ec == std::errc();
}

std::optional<coxswain::bench::StepCosts> costs_of_environment() {
  const char* text = std::getenv("COXSWAIN_BENCH_PACE");
  std::string_view rest = text == nullptr ? "" : text;
  coxswain::bench::StepCosts out{"environment", 0, 0, 0, 0, 0};
  const bool ok = read(rest, out.step) && read(rest, out.decode) && read(rest, out.prompt_token) &&
                  read(rest, out.decode_context) && read(rest, out.prompt_context);
  return ok ? std::optional(out) : std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  const TimePoint started = coxswain::Clock::now();
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--help" || first == "-h") {
    std::fputs(kHelp.data(), stdout);
    return 0;
  }
  const auto costs = costs_of_environment();
  if (!costs) {
    std::fputs("COXSWAIN_BENCH_PACE is not five numbers; see --help\n", stderr);
    return 2;
  }
  coxswain::serve::hold_standard_streams();
  coxswain::serve::report_crashes();
  coxswain::serve::hold_signals();
  return coxswain::serve::run_shard(argc, argv, [&](coxswain::StepRunner& runner) {
    coxswain::bench::wait_for_start(started, std::getenv("COXSWAIN_BENCH_START"));
    return std::make_unique<coxswain::bench::PacedRunner>(runner, *costs);
  });
}
