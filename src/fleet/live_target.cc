#include "fleet/live_target.h"

#include <algorithm>
#include <utility>

#include <coxswain/hidden_states.h>

#include "batch/engine_core.h"
#include "fleet/plan/zigzag.h"
#include "fleet/state/replica_state.h"

namespace coxswain::fleet {
namespace {

// How often one is asked that has no prompts.
constexpr std::chrono::milliseconds kAskIdle{200};
// How long a prompt may lie here; who would go on computes it from its beginning then.
constexpr std::chrono::minutes kPromptMax{10};
// How long whoever takes a prompt has for its other layers.
constexpr std::chrono::seconds kTakenMax{60};

}  // namespace

LiveTarget::LiveTarget(batch::Engine& engine, std::function<void()> changed)
    : engine_(engine), changed_(std::move(changed)) {}

LiveTarget::State LiveTarget::state() const {
  base::MutexLock lock(mu_);
  State out = state_;
  out.n_prompts = prompts_.size();
  return out;
}

void LiveTarget::set_phase(LivePhase phase) {
  state_.phase = phase;
  loads_ = phase == LivePhase::kLoading || phase == LivePhase::kRefractory;
  known_ = phase != LivePhase::kUnknown;
}

LiveTarget::Prompt LiveTarget::prompt(std::uint64_t id) const {
  base::MutexLock lock(mu_);
  const auto found = prompts_.find(id);
  return found == prompts_.end() ? Prompt::kGone : found->second;
}

std::size_t LiveTarget::room(TimePoint now) const {
  base::MutexLock lock(mu_);
  if (state_.phase != LivePhase::kLoading) return 0;
  const std::size_t most =
      live_backlog_max(std::chrono::duration_cast<std::chrono::milliseconds>(now - since_));
  if (prompts_.size() < most) return most - prompts_.size();
  return all_wait_ ? 1 : 0;
}

void LiveTarget::restarted() {
  base::MutexLock lock(mu_);
  set_phase(LivePhase::kUnknown);
  state_.layers_ready = 0;
  asked_at_ = {};
}

TimePoint LiveTarget::follow(TimePoint now) {
  {
    base::MutexLock lock(mu_);
    if (state_.phase == LivePhase::kWhole) return TimePoint::max();
    const TimePoint due = asked_at_ + (prompts_.empty() ? kAskIdle : kAskWaiting);
    if (asked_) return now + kAskIdle;
    if (now < due) return due;
    asked_ = true;
    asked_at_ = now;
  }
  engine_.post([self = shared_from_this()](batch::EngineCore& core) { self->ask(core); });
  return now + kAskWaiting;
}

std::uint64_t LiveTarget::begin(batch::GenerationRequest request) {
  std::uint64_t id = 0;
  {
    base::MutexLock lock(mu_);
    id = next_id_++;
    prompts_.emplace(id, Prompt::kQueued);
    all_wait_ = false;
  }
  const auto own = std::make_shared<batch::GenerationRequest>(std::move(request));
  engine_.post([self = shared_from_this(), id, own](batch::EngineCore& core) {
    self->add(core, id, std::move(*own));
  });
  return id;
}

void LiveTarget::take(std::uint64_t id, std::function<void(Parked)> taken) {
  engine_.post([self = shared_from_this(), id, to = std::move(taken)](batch::EngineCore& core) {
    const bool same = self->same_runner(core);
    const auto task = self->find(id);
    if (!same || task == self->tasks_.end()) return to(nullptr);
    if (self->running_ == id) {
      task->wanted = to;
    } else {
      self->give(core, task, to);
      self->note(core);
    }
  });
}

void LiveTarget::forget(std::uint64_t id) {
  engine_.post([self = shared_from_this(), id](batch::EngineCore& core) {
    const bool same = self->same_runner(core);
    const auto task = self->find(id);
    if (!same || task == self->tasks_.end()) return self->show(id, Prompt::kGone);
    if (self->running_ == id) {
      task->forgotten = true;
    } else {
      self->drop(core, task);
      self->note(core);
    }
  });
}

// ---- the engine's thread ----

// What it had is gone with a runner that was lost.
bool LiveTarget::same_runner(const batch::EngineCore& core) {
  if (core.runner_info().epoch == epoch_) return true;
  epoch_ = core.runner_info().epoch;
  running_.reset();
  const Tasks lost = std::exchange(tasks_, {});
  {
    base::MutexLock lock(mu_);
    for (const Task& task : lost) prompts_.erase(task.id);
  }
  for (const Task& task : lost)
    if (task.wanted) task.wanted(nullptr);
  return false;
}

void LiveTarget::ask(batch::EngineCore& core) {
  same_runner(core);
  const RunnerInfo& info = core.runner_info();
  const bool can = info.capabilities.layer_ranges && batch::piece_blocks_max(info) > 0;
  if (can) {
    batch::LayerStep step;
    step.done = [self = shared_from_this(), &core](const Status& status) {
      {
        base::MutexLock lock(self->mu_);
        self->asked_ = false;
      }
      if (!status.ok()) return;
      self->note(core);
      self->next(core);
    };
    core.layer_steps().push(std::move(step));
    return;
  }
  {
    base::MutexLock lock(mu_);
    asked_ = false;
    set_phase(LivePhase::kWhole);
  }
  changed_();
}

// Its blocks are taken when it is its turn.
void LiveTarget::add(batch::EngineCore& core,
                     std::uint64_t id,
                     batch::GenerationRequest&& request) {
  same_runner(core);
  tasks_.push_back({.id = id, .request = std::move(request)});
  next(core);
}

// Errors: kResourceExhausted: not now; others: never.
Status LiveTarget::open(batch::EngineCore& core, Task& task) const {
  const RunnerInfo& info = core.runner_info();
  COXSWAIN_RETURN_IF_ERROR(batch::can_split(info, task.request));
  // Beside all of them, what the layer that runs yields; the rest of the room is of those who hand blocks over.
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;
  bool any = false;
  for (const Task& each : tasks_) {
    if (each.split.hold == 0 && &each != &task) continue;
    any = any || &each != &task;
    const std::uint64_t own = hidden_attachment_bytes(each.request.prompt.size(), info.hidden_size);
    bytes += own;
    largest = std::max(largest, own);
  }
  if (any && bytes + largest > info.capabilities.attachment_bytes_max / 2)
    return {Code::kResourceExhausted, "there is no room for its hidden states"};
  COXSWAIN_ASSIGN_OR_RETURN(task.split,
                            batch::begin_split(core, task.request, Clock::now() + kPromptMax));
  return {};
}

void LiveTarget::next(batch::EngineCore& core) {
  if (running_) return;
  std::uint32_t layers_ready = 0;
  bool finishes = false;
  {
    base::MutexLock lock(mu_);
    layers_ready = state_.layers_ready;
    finishes = state_.phase == LivePhase::kRefractory;
  }
  std::vector<ZigZagTask> tasks;
  tasks.reserve(tasks_.size());
  for (const Task& task : tasks_) tasks.push_back({.layers_done = task.layers_done});
  std::optional<std::size_t> chosen;
  while ((chosen = target_next(tasks, layers_ready)) && tasks_[*chosen].split.hold == 0) {
    const Status opened = open(core, tasks_[*chosen]);
    if (opened.ok()) break;
    if (opened.code() == Code::kResourceExhausted) {
      tasks[*chosen].gone = true;
      continue;
    }
    const auto at = static_cast<std::ptrdiff_t>(*chosen);
    tasks.erase(tasks.begin() + at);
    drop(core, tasks_.begin() + at);
  }
  note_waiting(!chosen);
  if (!chosen) return note(core);
  Task& task = tasks_[*chosen];
  running_ = task.id;
  show(task.id, finishes ? Prompt::kKept : Prompt::kBegun);
  batch::run_layers(core,
                    {.prompt = task.split,
                     .layers = {.begin = task.layers_done, .end = task.layers_done + 1},
                     .hidden = std::exchange(task.hidden, 0),
                     .done = [self = shared_from_this(), id = task.id](
                                 batch::EngineCore& engine, const Result<std::uint64_t>& hidden) {
                       self->layer_done(engine, id, hidden);
                     }});
}

void LiveTarget::layer_done(batch::EngineCore& core,
                            std::uint64_t id,
                            const Result<std::uint64_t>& hidden) {
  if (!same_runner(core) || running_ != id) return;
  running_.reset();
  const auto task = find(id);
  if (!hidden.ok()) {
    const auto wanted = std::move(task->wanted);
    drop(core, task);
    if (wanted) wanted(nullptr);
    note(core);
    return next(core);
  }
  task->hidden = *hidden;
  {
    base::MutexLock lock(mu_);
    ++state_.n_layers_run;
    if (task->layers_done == 0) ++state_.n_prompts_begun;
  }
  ++task->layers_done;
  if (task->forgotten) {
    drop(core, task);
  } else if (task->wanted) {
    const auto wanted = std::move(task->wanted);  // the task goes
    give(core, task, wanted);
  } else if (task->layers_done == core.runner_info().n_layers) {
    show(task->id, Prompt::kFinished);
  }
  note(core);
  next(core);
}

// One that has no blocks yet waits for room, or for the first layer: then there is nothing for another one either.
void LiveTarget::note_waiting(bool idle) {
  const bool all =
      idle && std::ranges::none_of(tasks_, [](const Task& task) { return task.split.hold == 0; });
  bool changed = false;
  {
    base::MutexLock lock(mu_);
    changed = !std::exchange(all_wait_, all) && all;
  }
  if (changed) changed_();
}

// What the last step said has arrived.
void LiveTarget::note(const batch::EngineCore& core) {
  const std::uint32_t n_layers = core.runner_info().n_layers;
  bool changed = false;
  {
    base::MutexLock lock(mu_);
    const bool all = core.layers_ready() >= n_layers;
    const LivePhase phase = !all             ? LivePhase::kLoading
                            : tasks_.empty() ? LivePhase::kWhole
                                             : LivePhase::kRefractory;
    changed = phase != state_.phase;
    if (phase == LivePhase::kLoading && changed) since_ = Clock::now();
    set_phase(phase);
    state_.n_layers = n_layers;
    state_.layers_ready = core.layers_ready();
  }
  if (changed) changed_();
}

void LiveTarget::give(batch::EngineCore& core,
                      Tasks::iterator task,
                      const std::function<void(Parked)>& taken) {
  if (task->layers_done == 0 || !core.transfers().holds(task->split.hold)) {
    drop(core, task);
    return taken(nullptr);
  }
  if (task->layers_done == core.runner_info().n_layers)
    core.transfers().publish(task->split.hold, task->split.n_blocks);
  Parked parked = batch::park_split(
      core, task->split, task->request, task->layers_done, task->hidden, Clock::now() + kTakenMax);
  const std::uint64_t id = task->id;
  tasks_.erase(task);
  show(id, Prompt::kGone);
  taken(std::move(parked));
}

void LiveTarget::drop(batch::EngineCore& core, Tasks::iterator task) {
  if (task->hidden != 0) static_cast<void>(core.runner()->detach(task->hidden));
  core.transfers().close(task->split.hold);
  const std::uint64_t id = task->id;
  tasks_.erase(task);
  show(id, Prompt::kGone);
}

void LiveTarget::show(std::uint64_t id, Prompt prompt) {
  {
    base::MutexLock lock(mu_);
    if (prompt == Prompt::kGone) {
      prompts_.erase(id);
    } else {
      prompts_[id] = prompt;
    }
  }
  if (prompt == Prompt::kGone || prompt == Prompt::kFinished) changed_();
}

LiveTarget::Tasks::iterator LiveTarget::find(std::uint64_t id) {
  return std::ranges::find(tasks_, id, &Task::id);
}

}  // namespace coxswain::fleet
