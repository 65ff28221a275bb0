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

}  // namespace

Result<StepTicket> PacedRunner::submit(StepPlan plan) {
  const Clock::duration takes =
      plan.rows.empty() ? Clock::duration{} : of_seconds(step_seconds(costs_, shape_of(plan)));
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
      if (result.status().code() != Code::kDeadlineExceeded && !due_.empty()) due_.pop_front();
      return result;
    }
    held_ = std::move(result).value();
  }
  const Due due = due_.front();
  if (due.at > until) {
    std::this_thread::sleep_until(until);
    return not_yet(ticket);
  }
  std::this_thread::sleep_until(due.at);
  due_.pop_front();
  StepResult out = *std::exchange(held_, std::nullopt);
  out.timings.total = out.timings.forward = due.takes;
  return out;
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
