#include "paced_runner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace coxswain::bench {
namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

Clock::duration of_seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(Seconds(s));
}

batch::StepShape shape_of(const StepPlan& plan) {
  batch::StepShape out;
  for (const Row& row : plan.rows) {
    const std::uint64_t n = row.n_tokens;
    const std::uint64_t context = n * row.first_position + n * (n + 1) / 2;
    if (row.continues) {
      ++out.n_decodes;
      out.decode_context += context;
    } else {
      out.n_prompt_tokens += row.n_tokens;
      out.prompt_context += context;
    }
  }
  return out;
}

// Of a step, what its layers take: all of them, or those of a prompt that is divided.
double share_of_layers(const LayerRange& layers, std::uint32_t n_layers) {
  if (layers == LayerRange{} || n_layers == 0) return 1.0;
  return static_cast<double>(layers.end - layers.begin) / n_layers;
}

}  // namespace

Result<StepTicket> PacedRunner::submit(StepPlan plan) {
  const double share = plan.rows.empty() ? 0.0 : share_of_layers(plan.layers, n_layers_);
  const Clock::duration takes = of_seconds(share * step_seconds(costs_, shape_of(plan)));
  const base::MutexLock lock(mu_);
  Result<StepTicket> ticket = inner_.submit(std::move(plan));
  if (ticket.ok()) {
    last_due_ = std::max(last_due_, Clock::now()) + takes;
    due_.push_back({last_due_, takes});
  }
  return ticket;
}

Result<StepResult> PacedRunner::wait(StepTicket ticket, TimePoint until) {
  if (!held_) {
    Result<StepResult> result = inner_.wait(ticket, until);
    if (!result.ok()) {
      const base::MutexLock lock(mu_);
      if (result.status().code() != Code::kDeadlineExceeded && !due_.empty()) due_.pop_front();
      return result;
    }
    held_ = std::move(result).value();
  }
  const Due due = next_due();
  if (due.at > until) {
    std::this_thread::sleep_until(until);
    return not_yet(ticket);
  }
  std::this_thread::sleep_until(due.at);
  {
    const base::MutexLock lock(mu_);
    due_.pop_front();
  }
  StepResult out = *std::exchange(held_, std::nullopt);
  out.timings.total = out.timings.forward = due.takes;
  return out;
}

PacedRunner::Due PacedRunner::next_due() const {
  const base::MutexLock lock(mu_);
  return due_.front();
}

void wait_for_start(TimePoint started, const char* rule) {
  if (rule == nullptr) return;
  const std::string text = rule;
  const std::size_t comma = text.find(',');
  const fs::path stamp = text.substr(0, comma);
  double warm = 0;
  double cold = 0;
  double ttl = 0;
  if (comma == std::string::npos ||
      std::sscanf(text.c_str() + comma, ",%lf,%lf,%lf", &warm, &cold, &ttl) != 3) {
    std::fputs("COXSWAIN_BENCH_START is not STAMP,WARM,COLD,TTL\n", stderr);
    std::exit(2);
  }
  std::error_code none;
  const auto before = fs::last_write_time(stamp, none);
  const bool cached = !none && Seconds(fs::file_time_type::clock::now() - before).count() < ttl;
  std::ofstream(stamp).put('\n');
  std::this_thread::sleep_until(started + of_seconds(cached ? warm : cold));
}

}  // namespace coxswain::bench
