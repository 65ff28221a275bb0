#include "kvspill/file_tier.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>
#include <utility>

#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "kvspill/block_file.h"

namespace coxswain::kvspill {
namespace {

namespace fs = std::filesystem;
using batch::BlockKey;
using batch::TierBlock;
using batch::TierJob;

constexpr std::string_view kSuffix = ".kvblock";
constexpr std::size_t kKeyDigits = 32;
constexpr std::size_t kSecretBytes = 2 * sizeof(base::HashKey);

// What decides about the bytes of a block beside identity and tokens.
std::string describe_runner(const RunnerInfo& info) {
  return "dtype=" + info.dtype + "\n" + describe(kv_layout_of(info));
}

std::string hex(std::uint64_t value) {
  std::string out(16, '0');
  for (std::size_t i = out.size(); i-- > 0; value >>= 4U) out[i] = "0123456789abcdef"[value & 15U];
  return out;
}

bool parse(std::string_view digits, int base, auto& out) {
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, out, base);
  return error == std::errc() && at == end;
}

// Of a name that path_of() has given.
bool parse_name(std::string_view name, BlockKey& key, std::uint32_t& priority) {
  if (name.size() != kKeyDigits + 4 + kSuffix.size() || !name.ends_with(kSuffix)) return false;
  return parse(name.substr(0, 16), 16, key.high) && parse(name.substr(16, 16), 16, key.low) &&
         name[kKeyDigits] == '-' && parse(name.substr(kKeyDigits + 1, 3), 10, priority) &&
         priority <= kRetentionPriorityMax;
}

Status failure(const std::string& path, const char* what) {
  char text[128];
  return {Code::kUnavailable,
          "`" + path + "`: " + what + ": " + strerror_r(errno, text, sizeof text)};
}

// Whether blocks of this runner can be kept at all.
Status check_runner(const RunnerInfo& info) {
  const auto windowed = [](const KvGroup& group) { return group.kind != KvGroup::Kind::kFull; };
  if (std::ranges::any_of(info.kv_groups, windowed))
    return {Code::kUnimplemented, "this model has layers with an attention window"};
  if (!info.capabilities.attachments || info.capabilities.attachment_bytes_max == 0)
    return {Code::kUnimplemented, "this runner hands out no blocks"};
  return {};
}

std::uint64_t sip(std::span<const std::byte> bytes, const base::HashKey& key, std::uint64_t above) {
  return base::sip_hash(bytes, {key[0] ^ above, key[1]}, base::kSip24);
}

}  // namespace

FileTier::FileTier(FileTierOptions options, const RunnerInfo& info)
    : options_(std::move(options)),
      description_(describe_runner(info)),
      layout_(kv_layout_of(info)),
      hash_(layout_hash(layout_)) {
  const auto text = std::as_bytes(std::span(description_));
  folder_ = options_.path + "/kv-" + hex(base::sip_hash(text, {}, base::kSip24));
  Status status = check_runner(info);
  if (status.ok()) status = open_folder();
  if (!status.ok()) {
    options_.warn("no KV blocks are kept in files: " + status.message());
    return;
  }
  find_files();
  {
    base::MutexLock lock(mu_);
    takes_ = true;
  }
  make_room(0);
  thread_ = std::thread([this] { run(); });
}

FileTier::~FileTier() {
  {
    base::MutexLock lock(mu_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

Status FileTier::open_folder() {
  std::error_code error;
  fs::create_directories(folder_, error);
  const std::string lock = folder_ + "/lock";
  lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_fd_ < 0) return failure(lock, "cannot be opened");
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) != 0)
    return {Code::kUnavailable, "`" + folder_ + "` is in use by another process"};
  return read_secret();
}

// Drawn by the first process; without it no file would be found.
Status FileTier::read_secret() {
  const std::string path = folder_ + "/secret";
  std::string bytes(kSecretBytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!in) {
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      return failure(path, "cannot be drawn");
    COXSWAIN_ASSIGN_OR_RETURN(base::AtomicFile file,
                              base::AtomicFile::create(path, *options_.calls));
    COXSWAIN_RETURN_IF_ERROR(file.write(bytes));
    COXSWAIN_RETURN_IF_ERROR(file.commit());
  }
  std::memcpy(first_key_.data(), bytes.data(), sizeof first_key_);
  std::memcpy(second_key_.data(), bytes.data() + sizeof first_key_, sizeof second_key_);
  return {};
}

// What former processes have left, the oldest use first.
void FileTier::find_files() {
  struct Found {
    fs::file_time_type time;
    BlockKey key;
    Entry entry;
  };
  std::vector<Found> found;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder_, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const fs::directory_entry& file = *it;
    const std::string name = file.path().filename();
    if (name.find(base::AtomicFile::kUnfinished) != std::string::npos) {
      ::unlink(file.path().c_str());
      continue;
    }
    Found f;
    std::error_code gone;
    if (!parse_name(name, f.key, f.entry.priority) || !file.is_regular_file(gone)) continue;
    f.entry.bytes = file.file_size(gone);
    f.time = file.last_write_time(gone);
    if (!gone) found.push_back(f);
  }
  std::ranges::sort(found, {}, &Found::time);
  base::MutexLock lock(mu_);
  for (const Found& f : found) add_entry(f.key, f.entry);
}

std::string FileTier::path_of(const BlockKey& key, std::uint32_t priority) const {
  const std::string number = std::to_string(priority);
  return folder_ + "/" + hex(key.high) + hex(key.low) + "-" +
         std::string(3 - std::min<std::size_t>(3, number.size()), '0') + number +
         std::string(kSuffix);
}

std::vector<BlockKey> FileTier::keys(std::string_view identity,
                                     std::span<const TokenId> tokens,
                                     std::uint32_t block_tokens) const {
  const auto text = std::as_bytes(std::span(identity));
  BlockKey above{.high = sip(text, first_key_, 0), .low = sip(text, second_key_, 0)};
  std::vector<BlockKey> out;
  for (std::size_t at = 0; at + block_tokens <= tokens.size(); at += block_tokens) {
    const auto block = std::as_bytes(tokens.subspan(at, block_tokens));
    above = {.high = sip(block, first_key_, above.high), .low = sip(block, second_key_, above.low)};
    out.push_back(above);
  }
  return out;
}

void FileTier::add_entry(const BlockKey& key, Entry entry) {
  remove_entry(key);
  entry.used_at = ++n_uses_;
  ranks_.emplace(entry.priority, entry.used_at, key);
  stats_.bytes_held += entry.bytes;
  ++stats_.blocks_held;
  entries_.emplace(key, entry);
}

void FileTier::remove_entry(const BlockKey& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  ranks_.erase({it->second.priority, it->second.used_at, key});
  stats_.bytes_held -= it->second.bytes;
  --stats_.blocks_held;
  entries_.erase(it);
}

void FileTier::touch(const BlockKey& key, Entry& entry) {
  ranks_.erase({entry.priority, entry.used_at, key});
  entry.used_at = ++n_uses_;
  ranks_.emplace(entry.priority, entry.used_at, key);
}

// The last block is touched first: without its beginning a prefix is of no use.
std::uint32_t FileTier::n_known(std::span<const BlockKey> keys) {
  base::MutexLock lock(mu_);
  std::uint32_t n = 0;
  while (n < keys.size() && entries_.contains(keys[n])) ++n;
  for (std::uint32_t i = n; i-- > 0;) touch(keys[i], entries_.at(keys[i]));
  return n;
}

bool FileTier::serves(const RunnerInfo& info) const {
  return thread_.joinable() && describe_runner(info) == description_;
}

bool FileTier::takes() const {
  base::MutexLock lock(mu_);
  return takes_;
}

void FileTier::store(TierJob job) {
  {
    base::MutexLock lock(mu_);
    jobs_.push_back({.stores = true, .job = std::move(job)});
  }
  changed_.notify_all();
}

void FileTier::load(TierJob job) {
  {
    base::MutexLock lock(mu_);
    jobs_.push_back({.stores = false, .job = std::move(job)});
  }
  changed_.notify_all();
}

void FileTier::forget_jobs() {
  base::MutexLock lock(mu_);
  jobs_.clear();
  changed_.wait(lock, [&]() REQUIRES(mu_) { return !runs_job_; });
}

KvTierStats FileTier::stats() const {
  base::MutexLock lock(mu_);
  return stats_;
}

// Who waits for a prompt goes first.
void FileTier::run() {
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
    next.job.done(next.stores ? do_store(next.job) : do_load(next.job));
    next = {};
    {
      base::MutexLock lock(mu_);
      runs_job_ = false;
    }
    changed_.notify_all();
  }
}

void FileTier::stop_taking(const Status& why) {
  {
    base::MutexLock lock(mu_);
    if (!std::exchange(takes_, false)) return;
  }
  options_.warn("no more KV blocks are kept in files: " + why.message());
}

// Until the files and `bytes` more are no more than bytes_max.
void FileTier::make_room(std::uint64_t bytes) {
  for (;;) {
    std::string path;
    {
      base::MutexLock lock(mu_);
      if (ranks_.empty() || stats_.bytes_held + bytes <= options_.bytes_max) return;
      const auto [priority, used_at, key] = *ranks_.begin();
      path = path_of(key, priority);
      remove_entry(key);
    }
    ::unlink(path.c_str());
  }
}

Status FileTier::keep(const TierBlock& block, std::string_view bytes) {
  const std::string file = write_block(hash_, block, bytes);
  if (file.size() > options_.bytes_max)
    return {Code::kResourceExhausted, "a block takes more than `kv_spill_bytes_max`"};
  make_room(file.size());
  const std::uint32_t priority = std::min(block.priority, kRetentionPriorityMax);
  COXSWAIN_ASSIGN_OR_RETURN(
      base::AtomicFile out,
      base::AtomicFile::create(path_of(block.key, priority), *options_.calls));
  COXSWAIN_RETURN_IF_ERROR(out.write(file));
  // What a crash leaves unwritten has a wrong checksum.
  COXSWAIN_RETURN_IF_ERROR(out.commit(false));
  base::MutexLock lock(mu_);
  add_entry(block.key, {.bytes = file.size(), .priority = priority});
  ++stats_.blocks_offloaded;
  return {};
}

std::uint32_t FileTier::do_store(const TierJob& job) {
  auto image = job.runner->take(job.attachment);
  const auto n = static_cast<std::uint32_t>(job.blocks.size());
  std::uint32_t n_kept = 0;
  if (image.ok()) {
    const auto blocks = split_image(layout_, image->bytes, n);
    Status status = blocks.status();
    // The last one first: of a prefix that does not fit its beginning stays.
    for (std::uint32_t i = n; i-- > 0 && status.ok() && takes();) {
      {
        base::MutexLock lock(mu_);
        if (entries_.contains(job.blocks[i].key)) continue;
      }
      status = keep(job.blocks[i], blocks.value()[i]);
      if (status.ok()) ++n_kept;
    }
    if (!status.ok()) stop_taking(status);
  }
  base::MutexLock lock(mu_);
  stats_.blocks_skipped += image.ok() && takes_ ? 0 : n - n_kept;
  return n_kept;
}

Result<std::string> FileTier::read(const TierBlock& block) {
  std::string path;
  std::uint64_t bytes = 0;
  {
    base::MutexLock lock(mu_);
    const auto it = entries_.find(block.key);
    if (it == entries_.end()) return Status(Code::kNotFound, "the block has gone meanwhile");
    path = path_of(block.key, it->second.priority);
    bytes = it->second.bytes;
  }
  std::string file(bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(file.data(), static_cast<std::streamsize>(file.size()));
  file.resize(static_cast<std::size_t>(in.gcount()));
  const bool goes_on = in.good() && in.peek() != std::ifstream::traits_type::eof();
  auto out = goes_on ? Status(Code::kDataLoss, "is longer than it was")
                     : read_block(hash_, block, block_bytes(layout_), file);
  if (out.ok()) {
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // the last use, for the next process
    return out;
  }
  options_.warn("KV block `" + path + "` is removed: " + out.status().message());
  ::unlink(path.c_str());
  base::MutexLock lock(mu_);
  remove_entry(block.key);
  ++stats_.blocks_refused;
  return out;
}

std::uint32_t FileTier::do_load(const TierJob& job) {
  std::vector<std::string> blocks;
  for (const TierBlock& block : job.blocks) {
    auto bytes = read(block);
    if (!bytes.ok()) break;
    blocks.push_back(std::move(bytes).value());
  }
  if (blocks.empty()) return 0;
  const Status status = job.runner->attach({.id = job.attachment,
                                            .kind = AttachmentKind::kBlocks,
                                            .bytes = join_image(layout_, blocks)});
  return status.ok() ? static_cast<std::uint32_t>(blocks.size()) : 0;
}

}  // namespace coxswain::kvspill
