#include "kvspill/spill_tier.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/thread_name.h"
#include "kvspill/block_file.h"
#include "kvspill/memory_store.h"

namespace coxswain::kvspill {
namespace {

using batch::BlockKey;
using batch::TierBlock;
using batch::TierDone;
using batch::TierJob;
using batch::TierPlace;

// Numbers of levels, as events have them.
constexpr std::uint32_t kMemory = 1;
constexpr std::uint32_t kFiles = 2;

// What decides about the bytes of a block beside identity and tokens.
std::string describe_runner(const RunnerInfo& info) {
  return "dtype=" + info.dtype + "\n" + describe(kv_layout_of(info));
}

// Whether blocks of this runner can be kept at all.
Status check_runner(const RunnerInfo& info) {
  constexpr std::size_t kGroupsMax = 32;  // bits of TierBlock::groups
  const auto is_state = [](const KvGroup& group) { return group.kind == KvGroup::Kind::kState; };
  if (std::ranges::any_of(info.kv_groups, is_state))
    return {Code::kUnimplemented, "this model has recurrent states, which keep no prefixes"};
  if (info.kv_groups.size() > kGroupsMax) {
    return {Code::kUnimplemented,
            "this model has " + std::to_string(info.kv_groups.size()) + " KV groups, at most " +
                std::to_string(kGroupsMax) + " are kept"};
  }
  if (!info.capabilities.attachments || info.capabilities.attachment_bytes_max == 0)
    return {Code::kUnimplemented, "this runner hands out no blocks"};
  return {};
}

std::uint64_t sip(std::span<const std::byte> bytes, const base::HashKey& key, std::uint64_t above) {
  return base::sip_hash(bytes, {key[0] ^ above, key[1]}, base::kSip24);
}

}  // namespace

SpillTier::SpillTier(SpillOptions options, const RunnerInfo& info)
    : options_(std::move(options)),
      description_(describe_runner(info)),
      layout_(kv_layout_of(info)) {
  if (Status status = check_runner(info); !status.ok()) {
    options_.warn("no KV blocks are kept in memory or files: " + status.message());
    return;
  }
  add_levels();
  if (levels_.empty()) return;
  {
    base::MutexLock lock(mu_);
    for (const Level& level : levels_) taking_ |= bit_of(level);
  }
  thread_ = std::thread([this] {
    base::name_thread("spill");
    run();
  });
}

void SpillTier::add_levels() {
  secrets_ = {base::draw_hash_key(), base::draw_hash_key()};
  if (options_.memory_bytes_max > 0) {
    levels_.push_back({.name = "memory",
                       .store = std::make_unique<MemoryStore>(options_.memory_bytes_max, layout_),
                       .number = kMemory});
  }
  if (options_.path.empty() || options_.file_bytes_max == 0) return;
  auto files = FileStore::open({.path = options_.path,
                                .bytes_max = options_.file_bytes_max,
                                .warn = options_.warn,
                                .calls = options_.calls},
                               description_,
                               layout_);
  if (!files.ok())
    return options_.warn("no KV blocks are kept in files: " + files.status().message());
  secrets_ = files.value()->secrets();
  levels_.push_back({.name = "files", .store = std::move(files).value(), .number = kFiles});
}

SpillTier::~SpillTier() {
  {
    base::MutexLock lock(mu_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<BlockKey> SpillTier::keys(std::string_view identity,
                                      std::span<const TokenId> tokens,
                                      std::uint32_t block_tokens) const {
  const auto text = std::as_bytes(std::span(identity));
  const auto& [first, second] = secrets_;
  BlockKey above{.high = sip(text, first, 0), .low = sip(text, second, 0)};
  std::vector<BlockKey> out;
  out.reserve(tokens.size() / block_tokens);
  for (std::size_t at = 0; at + block_tokens <= tokens.size(); at += block_tokens) {
    const auto block = std::as_bytes(tokens.subspan(at, block_tokens));
    above = {.high = sip(block, first, above.high), .low = sip(block, second, above.low)};
    out.push_back(above);
  }
  return out;
}

std::vector<TierPlace> SpillTier::places(std::span<const BlockKey> keys) const {
  std::vector<TierPlace> out(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
      const TierPlace found = level->store->find(keys[i]);
      if (found.groups == 0) continue;
      out[i] = {.groups = out[i].groups | found.groups,
                .level = level->number,
                .priority = found.priority};
    }
  }
  return out;
}

std::vector<std::uint32_t> SpillTier::capacity() const {
  const std::uint32_t all =
      static_cast<std::uint32_t>((std::uint64_t{1} << layout_.groups.size()) - 1);
  std::vector<std::uint32_t> out;
  for (const Level& level : levels_) {
    out.resize(level.number, 0);
    const std::uint64_t n = level.store->capacity(block_bytes(layout_, all));
    out.back() = static_cast<std::uint32_t>(std::min<std::uint64_t>(n, UINT32_MAX));
  }
  return out;
}

void SpillTier::touch(std::span<const BlockKey> keys) {
  for (const Level& level : levels_) {
    for (std::size_t i = keys.size(); i-- > 0;) level.store->touch(keys[i]);
  }
}

bool SpillTier::serves(const RunnerInfo& info) const {
  return thread_.joinable() && describe_runner(info) == description_;
}

bool SpillTier::takes() const {
  base::MutexLock lock(mu_);
  return taking_ != 0;
}

bool SpillTier::takes(const Level& level) const {
  base::MutexLock lock(mu_);
  return (taking_ & bit_of(level)) != 0;
}

void SpillTier::stop_taking(const Level& level, const Status& why) {
  {
    base::MutexLock lock(mu_);
    taking_ &= ~bit_of(level);
  }
  options_.warn("no more KV blocks are kept in " + std::string(level.name) + ": " + why.message());
}

void SpillTier::store(TierJob job) {
  {
    base::MutexLock lock(mu_);
    jobs_.push_back({.stores = true, .job = std::move(job)});
  }
  changed_.notify_all();
}

void SpillTier::load(TierJob job) {
  {
    base::MutexLock lock(mu_);
    jobs_.push_back({.stores = false, .job = std::move(job)});
  }
  changed_.notify_all();
}

void SpillTier::forget_jobs() {
  base::MutexLock lock(mu_);
  jobs_.clear();
  changed_.wait(lock, [&]() REQUIRES(mu_) { return !runs_job_; });
}

KvTierStats SpillTier::stats() const {
  KvTierStats out;
  {
    base::MutexLock lock(mu_);
    out = stats_;
  }
  for (const Level& level : levels_) {
    const StoreCounts counts = level.store->counts();
    const bool is_memory = level.number == kMemory;
    (is_memory ? out.memory_blocks_held : out.blocks_held) += counts.blocks;
    (is_memory ? out.memory_bytes_held : out.bytes_held) += counts.bytes;
    out.blocks_refused += counts.refused;
  }
  return out;
}

// Who waits for a prompt goes first.
void SpillTier::run() {
  for (;;) {
    Job next;
    {
      base::MutexLock lock(mu_);
      changed_.wait(lock, [&]() REQUIRES(mu_) { return stops_ || !jobs_.empty(); });
      if (stops_) return;
      auto it = std::ranges::find(jobs_, false, &Job::stores);
      if (it == jobs_.end()) it = jobs_.begin();
      next = std::move(*it);
      jobs_.erase(it);
      runs_job_ = true;
    }
    const TimePoint begin = Clock::now();
    TierDone done = finish(next.stores ? do_store(next.job) : do_load(next.job));
    done.took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin);
    next.job.done(std::move(done));
    next = {};
    {
      base::MutexLock lock(mu_);
      runs_job_ = false;
    }
    changed_.notify_all();
  }
}

// What has moved is told with where it is in the end.
TierDone SpillTier::finish(std::uint32_t n_blocks) {
  std::ranges::sort(moved_);
  const auto rest = std::ranges::unique(moved_);
  moved_.erase(rest.begin(), rest.end());
  const std::vector<TierPlace> now = places(moved_);
  TierDone out{.n_blocks = n_blocks};
  for (std::size_t i = 0; i < moved_.size(); ++i) out.moved.emplace_back(moved_[i], now[i]);
  moved_.clear();
  return out;
}

// What the level has of the block in other groups stays. True if it has come to have more.
bool SpillTier::keep_in(const Level& level, TierBlock block, std::string_view bytes) {
  BlockStore& store = *level.store;
  const std::uint32_t has = store.find(block.key).groups;
  if ((block.groups & ~has) == 0 || !takes(level)) return false;
  std::string merged;
  if (has != 0) {
    const std::uint32_t comes = block.groups;
    block.groups = has;
    if (const auto former = store.get(block); former.ok()) {
      merged = merge_groups(layout_, comes, bytes, has, former.value());
      bytes = merged;
      block.groups |= comes;
    } else {
      block.groups = comes;
    }
  }
  moved_.push_back(block.key);
  const Status status = store.put(block, bytes, moved_);
  if (!status.ok()) stop_taking(level, status);
  return status.ok();
}

bool SpillTier::keep(const TierBlock& block, std::string_view bytes) {
  bool kept = false;
  for (const Level& level : levels_) kept |= keep_in(level, block, bytes);
  return kept;
}

std::uint32_t SpillTier::do_store(const TierJob& job) {
  const auto n = static_cast<std::uint32_t>(job.blocks.size());
  std::vector<std::uint32_t> groups;
  groups.reserve(n);
  for (const TierBlock& block : job.blocks) groups.push_back(block.groups);
  const auto image = job.runner->take(job.attachment);
  const auto blocks = image.ok() ? split_image(layout_, image->bytes, groups)
                                 : Result<std::vector<std::string>>(image.status());
  std::uint32_t n_kept = 0;
  // The last one first: of a prefix that does not fit its beginning stays.
  for (std::uint32_t i = n; blocks.ok() && i-- > 0;)
    n_kept += keep(job.blocks[i], blocks.value()[i]) ? 1 : 0;
  const bool lost = !blocks.ok() || !takes();
  base::MutexLock lock(mu_);
  stats_.blocks_offloaded += n_kept;
  stats_.blocks_skipped += lost ? n - n_kept : 0;
  return n_kept;
}

// From the fastest level that has it; those before it get it, too.
Result<std::string> SpillTier::read(const TierBlock& block, std::uint32_t& n_from_memory) {
  Result<std::string> out = Status(Code::kNotFound, "the block has gone meanwhile");
  for (std::size_t i = 0; i < levels_.size() && !out.ok(); ++i) {
    out = levels_[i].store->get(block);
    if (!out.ok()) moved_.push_back(block.key);
    for (std::size_t faster = 0; out.ok() && faster < i; ++faster)
      keep_in(levels_[faster], block, out.value());
    n_from_memory += out.ok() && levels_[i].number == kMemory ? 1 : 0;
  }
  return out;
}

std::uint32_t SpillTier::do_load(const TierJob& job) {
  std::vector<std::string> blocks;
  std::vector<std::uint32_t> groups;
  std::uint32_t n_from_memory = 0;
  for (const TierBlock& block : job.blocks) {
    auto bytes = read(block, n_from_memory);
    if (!bytes.ok()) break;
    blocks.push_back(std::move(bytes).value());
    groups.push_back(block.groups);
  }
  if (blocks.empty()) return 0;
  const Status status = job.runner->attach({.id = job.attachment,
                                            .kind = AttachmentKind::kBlocks,
                                            .bytes = join_image(layout_, blocks, groups)});
  if (!status.ok()) return 0;
  base::MutexLock lock(mu_);
  stats_.memory_blocks_onboarded += n_from_memory;
  return static_cast<std::uint32_t>(blocks.size());
}

Result<std::shared_ptr<batch::BlockTier>> make_tier(SpillOptions options, const RunnerInfo& info) {
  std::shared_ptr<batch::BlockTier> out;
  if (!options.any()) return out;
  try {
    out = std::make_shared<SpillTier>(std::move(options), info);
  } catch (const std::exception& e) {
    return Status(Code::kResourceExhausted,
                  std::string("cannot start the tier behind the KV cache: ") + e.what());
  }
  return out;
}

}  // namespace coxswain::kvspill
