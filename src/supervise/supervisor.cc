#include "supervise/supervisor.h"

#include <algorithm>
#include <array>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <sys/signalfd.h>

#include "base/fatal.h"
#include "supervise/line_buffer.h"

namespace coxswain::supervise {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLineBytesMax = 64 << 10;
constexpr milliseconds kReadyPoll{20};
constexpr milliseconds kIdlePoll{1000};

enum class State : std::uint8_t { kWaiting, kStarting, kReady, kBackingOff, kStopping, kStopped };

std::string_view name_of(State state) {
  switch (state) {
    case State::kWaiting:
      return "waiting";
    case State::kStarting:
      return "starting";
    case State::kReady:
      return "ready";
    case State::kBackingOff:
      return "backing off";
    case State::kStopping:
      return "stopping";
    case State::kStopped:
      return "stopped";
  }
  return "unknown";
}

struct Transition {
  State from;
  State to;
};

// The whole relation; anything else is our bug.
constexpr std::array kTransitions{
    Transition{State::kWaiting, State::kStarting},
    Transition{State::kWaiting, State::kStopped},
    Transition{State::kStarting, State::kReady},
    Transition{State::kStarting, State::kStopping},
    Transition{State::kStarting, State::kStopped},
    Transition{State::kStarting, State::kBackingOff},
    Transition{State::kReady, State::kBackingOff},
    Transition{State::kReady, State::kStopping},
    Transition{State::kReady, State::kStopped},
    Transition{State::kBackingOff, State::kStarting},
    Transition{State::kBackingOff, State::kStopped},
    Transition{State::kStopping, State::kStopped},
    Transition{State::kStopped, State::kStarting},  // wanted again
};

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

constexpr std::array kStreams{Stream::kStdout, Stream::kStderr};

constexpr std::size_t index_of(Stream stream) {
  return static_cast<std::size_t>(stream);
}

struct Service {
  ServiceSpec spec;
  int group = 0;
  State state = State::kWaiting;
  bool wanted = true;
  bool may_fail = false;
  bool was_ready = false;  // since it was wanted
  TimePoint kill_at{};     // one that is not wanted
  std::optional<ChildProcess> process;
  RestartPolicy policy;
  TimePoint next_start{};
  TimePoint started{};
  TimePoint next_waiting{};
  std::optional<TimePoint> held_since;
  // By Stream.
  std::array<LineBuffer, 2> lines{LineBuffer{kLineBytesMax}, LineBuffer{kLineBytesMax}};
  std::array<bool, 2> ended{};  // the process has closed it

  void enter(State next) {
    const bool listed = std::ranges::any_of(
        kTransitions, [&](const Transition& t) { return t.from == state && t.to == next; });
    if (!listed) base::fatal("supervisor: a service took a transition that does not exist");
    state = next;
  }
};

}  // namespace

struct Supervisor::Impl {
  SupervisorOptions options;
  SupervisorEvents events;
  std::vector<std::unique_ptr<Service>> services;
  int signal_fd = -1;
  bool stopping = false;
  std::optional<RunResult> failure;
  TimePoint stop_deadline{};
  int stopping_group = 0;
  TimePoint group_deadline{};
  int watched_fd = -1;
  std::function<void()> on_readable;

  int highest_group() const {
    int highest = 0;
    for (const auto& service : services) highest = std::max(highest, service->group);
    return highest;
  }
  bool all_ready_below(int group) const {
    return std::ranges::all_of(
        services, [&](const auto& s) { return s->group >= group || s->was_ready || !s->wanted; });
  }
  bool all_stopped(int from_group) const {
    return std::ranges::all_of(services, [&](const auto& s) {
      return s->group < from_group || s->state == State::kStopped;
    });
  }

  void start(Service& service);
  void start_due(TimePoint now);
  void poll_ready();
  void read_output(Service& service, Stream stream);
  void reap(TimePoint now);
  void watch_held(Service& service, TimePoint now);
  void want(Service& service, bool wanted, bool may_fail);
  void tell_to_end(Service& service);
  void note_unwanted(Service& service, bool failed);
  void on_end(Service& service, const Exit& exit, const Status& start_error, TimePoint now);
  void fail(RunResult result, TimePoint now);
  void begin_stop(std::string_view reason, TimePoint now);
  void tell_group(TimePoint now);
  void advance_stop(TimePoint now);
  void read_signals(TimePoint now);
  void report_state();
  milliseconds next_timeout(TimePoint now) const;
  void wait(TimePoint now);
};

void Supervisor::Impl::start(Service& service) {
  service.spec.before_start();
  service.ended = {};
  service.held_since.reset();
  service.started = Clock::now();
  service.next_waiting = service.started + options.waiting_interval;
  if (events.on_start) events.on_start(service.spec.child.name);
  auto process = ChildProcess::spawn(service.spec.child);
  service.enter(State::kStarting);
  if (process.ok()) {
    service.process.emplace(std::move(process).value());
  } else {
    on_end(service, {}, process.status(), Clock::now());
  }
}

void Supervisor::Impl::start_due(TimePoint now) {
  for (const auto& service : services) {
    if (stopping) return;
    const bool first = service->state == State::kWaiting && all_ready_below(service->group);
    const bool again = service->state == State::kBackingOff && now >= service->next_start;
    const bool wanted = service->state == State::kStopped && service->wanted;
    if (first || again || wanted) start(*service);
  }
}

void Supervisor::Impl::poll_ready() {
  for (const auto& service : services) {
    if (service->state != State::kStarting || !service->process) continue;
    const TimePoint now = Clock::now();
    if (service->spec.ready()) {
      // What it said before it was ready is told before.
      for (const Stream stream : kStreams) read_output(*service, stream);
      service->enter(State::kReady);
      service->was_ready = true;
      events.on_ready(service->spec.child.name,
                      std::chrono::duration_cast<milliseconds>(now - service->started));
    } else if (now >= service->next_waiting) {
      service->next_waiting = now + options.waiting_interval;
      if (events.on_waiting) events.on_waiting(service->spec.child.name);
    }
  }
}

void Supervisor::Impl::read_output(Service& service, Stream stream) {
  if (!service.process) return;
  const int fd =
      stream == Stream::kStdout ? service.process->stdout_fd() : service.process->stderr_fd();
  LineBuffer& buffer = service.lines[index_of(stream)];
  std::array<char, 16384> bytes;
  for (int reads = 0; reads < 64; ++reads) {
    const ssize_t n = read(fd, bytes.data(), bytes.size());
    if (n == 0) service.ended[index_of(stream)] = true;
    if (n <= 0) return;
    for (const std::string& line : buffer.push({bytes.data(), static_cast<std::size_t>(n)})) {
      events.on_line(service.spec.child.name, stream, line);
    }
  }
}

void Supervisor::Impl::reap(TimePoint now) {
  for (const auto& service : services) {
    if (!service->process) continue;
    const auto exit = service->process->poll_exit();
    if (!exit) {
      const bool overdue = !stopping && service->state == State::kStopping;
      if (overdue && now >= service->kill_at) service->process->send_signal(SIGKILL);
      watch_held(*service, now);
      continue;
    }
    for (const Stream stream : kStreams) {
      read_output(*service, stream);
      if (const std::string rest = service->lines[index_of(stream)].take_rest(); !rest.empty())
        events.on_line(service->spec.child.name, stream, rest);
    }
    service->process.reset();
    on_end(*service, *exit, {}, now);
  }
}

// A process that a signal holds answers nobody, and does not hear that it should end.
void Supervisor::Impl::watch_held(Service& service, TimePoint now) {
  if (!service.process->is_held()) {
    service.held_since.reset();
    return;
  }
  if (!service.held_since) service.held_since = now;
  if (service.state != State::kReady || now - *service.held_since < options.held_max) return;
  if (events.on_held) events.on_held(service.spec.child.name, service.process->pid());
  service.process->send_signal(SIGKILL);
  service.held_since = now;
}

// A process has ended, or could not be started (`start_error`): again later, or the end of the run.
void Supervisor::Impl::on_end(Service& service,
                              const Exit& exit,
                              const Status& start_error,
                              TimePoint now) {
  if (stopping) {
    service.enter(State::kStopped);
    return;
  }
  if (service.state == State::kStopping) {
    service.enter(State::kStopped);
    if (!service.wanted) note_unwanted(service, false);
    return;
  }
  const std::string& name = service.spec.child.name;
  const auto next = service.was_ready ? service.policy.on_death(now) : std::nullopt;
  std::optional<milliseconds> delay;
  if (next) delay = std::chrono::duration_cast<milliseconds>(*next - now);
  if (start_error.ok()) {
    events.on_exit(name, exit, delay);
  } else {
    events.on_start_error(name, start_error);
  }
  if (next) {
    service.enter(State::kBackingOff);
    service.next_start = *next;
    return;
  }
  service.enter(State::kStopped);
  if (!service.was_ready && service.may_fail) {
    service.wanted = false;
    note_unwanted(service, true);
    return;
  }
  fail({.outcome = service.was_ready ? Outcome::kGaveUp : Outcome::kStartFailed,
        .service = name,
        .exit = exit,
        .status = start_error},
       now);
}

void Supervisor::Impl::fail(RunResult result, TimePoint now) {
  if (!failure) failure = std::move(result);
  begin_stop("", now);
}

void Supervisor::Impl::begin_stop(std::string_view reason, TimePoint now) {
  if (stopping) {
    if (reason.empty()) return;
    // A second signal: half of what is left.
    stop_deadline = now + (stop_deadline - now) / 2;
    group_deadline = now + (group_deadline - now) / 2;
    return;
  }
  stopping = true;
  if (!reason.empty()) events.on_stop(reason);
  stop_deadline = now + options.grace;
  stopping_group = highest_group();
  tell_group(now);
}

void Supervisor::Impl::tell_group(TimePoint now) {
  // A short grace is shared: the services that stop last never take more than a quarter of it.
  const auto reserve = std::min<Clock::duration>(options.reserve, (stop_deadline - now) / 4);
  group_deadline = stopping_group > 0 ? stop_deadline - reserve : stop_deadline;
  for (const auto& service : services) {
    if (service->group != stopping_group) continue;
    service->spec.before_stop();
    if (service->state == State::kStopped) continue;
    if (!service->process) {
      service->enter(State::kStopped);
      continue;
    }
    tell_to_end(*service);
  }
}

void Supervisor::Impl::tell_to_end(Service& service) {
  service.process->send_signal(SIGTERM);
  service.process->send_signal(SIGCONT);  // one that is held would not hear it
  if (service.state != State::kStopping) service.enter(State::kStopping);
}

// One that is still ending is started when it has ended.
void Supervisor::Impl::want(Service& service, bool wanted, bool may_fail) {
  if (stopping || service.wanted == wanted) return;
  service.wanted = wanted;
  service.may_fail = may_fail;
  service.was_ready = false;
  if (wanted) return;
  if (service.process) {
    tell_to_end(service);
    service.kill_at = Clock::now() + options.unwanted_max;
    return;
  }
  if (service.state != State::kStopped) service.enter(State::kStopped);
  note_unwanted(service, false);
}

void Supervisor::Impl::note_unwanted(Service& service, bool failed) {
  if (events.on_unwanted) events.on_unwanted(service.spec.child.name, failed);
}

void Supervisor::Impl::advance_stop(TimePoint now) {
  if (!stopping) return;
  while (stopping_group > 0 && all_stopped(stopping_group)) {
    --stopping_group;
    tell_group(now);
  }
  if (now < group_deadline) return;
  for (const auto& service : services) {
    if (service->group == stopping_group && service->process)
      service->process->send_signal(SIGKILL);
  }
}

void Supervisor::Impl::read_signals(TimePoint now) {
  signalfd_siginfo info{};
  while (read(signal_fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGTERM) begin_stop("SIGTERM", now);
    if (info.ssi_signo == SIGINT) begin_stop("SIGINT", now);
    if (info.ssi_signo == SIGUSR1) report_state();
    if (info.ssi_signo != SIGHUP) continue;
    if (options.hangup_stops) {
      begin_stop("SIGHUP", now);
    } else {
      if (events.on_hangup) events.on_hangup();
      for (const auto& service : services) {
        if (service->spec.takes_hangup && service->state == State::kReady)
          service->process->send_signal(SIGHUP);
      }
    }
  }
}

void Supervisor::Impl::report_state() {
  for (const auto& service : services) {
    const pid_t pid = service->process ? service->process->pid() : 0;
    if (events.on_state) events.on_state(service->spec.child.name, name_of(service->state), pid);
    // Others may not have a handler yet, and would die of it.
    if (service->state == State::kReady) service->process->send_signal(SIGUSR1);
  }
}

milliseconds Supervisor::Impl::next_timeout(TimePoint now) const {
  milliseconds timeout = kIdlePoll;
  const auto until = [&](TimePoint time) {
    const auto left = std::chrono::ceil<milliseconds>(time - now);
    timeout = std::clamp(left, milliseconds{0}, timeout);
  };
  for (const auto& service : services) {
    if (service->state == State::kStarting) timeout = std::min(timeout, kReadyPoll);
    if (service->state == State::kBackingOff) until(service->next_start);
    if (!stopping && service->state == State::kStopping)
      until(std::max(service->kill_at, now + kReadyPoll));
    if (service->state == State::kReady && service->held_since)
      until(*service->held_since + options.held_max);
  }
  if (stopping) until(std::max(group_deadline, now + kReadyPoll));
  return timeout;
}

void Supervisor::Impl::wait(TimePoint now) {
  std::vector<pollfd> fds{{signal_fd, POLLIN, 0}};
  std::vector<std::pair<Service*, Stream>> owners{{nullptr, Stream::kStdout}};
  for (const auto& service : services) {
    if (!service->process) continue;
    for (const Stream stream : kStreams) {
      // poll() would return at once for a closed one, again and again.
      if (service->ended[index_of(stream)]) continue;
      const ChildProcess& process = *service->process;
      const int fd = stream == Stream::kStdout ? process.stdout_fd() : process.stderr_fd();
      fds.push_back({fd, POLLIN, 0});
      owners.emplace_back(service.get(), stream);
    }
  }
  if (watched_fd >= 0) fds.push_back({watched_fd, POLLIN, 0});
  poll(fds.data(), fds.size(), static_cast<int>(next_timeout(now).count()));
  for (std::size_t i = 1; i < owners.size(); ++i) {
    if ((fds[i].revents & (POLLIN | POLLHUP)) != 0) read_output(*owners[i].first, owners[i].second);
  }
  if (watched_fd >= 0 && (fds.back().revents & POLLIN) != 0) on_readable();
  read_signals(Clock::now());
}

void Supervisor::block_signals() {
  const sigset_t set = handled_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // Whoever started us may have left it ignored, and then the system reaps children unseen.
  signal(SIGCHLD, SIG_DFL);
}

Supervisor::Supervisor(SupervisorOptions options, SupervisorEvents events)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->events = std::move(events);
  const sigset_t set = handled_signals();
  impl_->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (impl_->signal_fd < 0) base::fatal("supervisor: signalfd failed");
}

Supervisor::~Supervisor() {
  close(impl_->signal_fd);
}

void Supervisor::add(ServiceSpec spec, int group) {
  auto service = std::make_unique<Service>();
  service->spec = std::move(spec);
  service->group = group;
  if (service->spec.waits_to_be_wanted) {
    service->wanted = false;
    service->state = State::kStopped;
  }
  service->policy = RestartPolicy(impl_->options.restarts);
  impl_->services.push_back(std::move(service));
}

void Supervisor::request_stop() {
  impl_->begin_stop("", Clock::now());
}

void Supervisor::want(const std::string& service, bool wanted, bool may_fail) {
  for (const auto& s : impl_->services)
    if (s->spec.child.name == service) impl_->want(*s, wanted, may_fail);
}

void Supervisor::watch(int fd, std::function<void()> on_readable) {
  impl_->watched_fd = fd;
  impl_->on_readable = std::move(on_readable);
}

RunResult Supervisor::run() {
  Impl& self = *impl_;
  while (!(self.stopping && self.all_stopped(0))) {
    const TimePoint now = Clock::now();
    self.poll_ready();
    self.start_due(now);
    self.advance_stop(now);
    if (self.stopping && self.all_stopped(0)) break;
    self.wait(now);
    self.reap(Clock::now());
  }
  return self.failure.value_or(RunResult{});
}

}  // namespace coxswain::supervise
