#include "serve/file_watch.h"

#include <chrono>
#include <utility>

#include <sys/stat.h>

#include "base/thread_name.h"

namespace coxswain::serve {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{500};

}  // namespace

FileWatch::~FileWatch() {
  {
    base::MutexLock lock(mu_);
    over_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void FileWatch::add(std::vector<std::string> paths, std::function<void()> changed) {
  std::erase(paths, "");
  const std::vector<Stamp> now = look(paths);
  if (!paths.empty()) entries_.push_back({std::move(paths), std::move(changed), now, now});
}

void FileWatch::start() {
  if (!entries_.empty())
    thread_ = std::thread([this] {
      base::name_thread("files");
      watch();
    });
}

void FileWatch::ask() {
  {
    base::MutexLock lock(mu_);
    asked_ = true;
  }
  wake_.notify_all();
}

std::vector<FileWatch::Stamp> FileWatch::look(const std::vector<std::string>& paths) {
  std::vector<Stamp> out;
  for (const std::string& path : paths) {
    struct stat info {};  // all zero where there is no file
    if (stat(path.c_str(), &info) != 0) info = {};
    out.emplace_back(
        info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }
  return out;
}

void FileWatch::watch() {
  for (;;) {
    bool all = false;
    {
      base::MutexLock lock(mu_);
      wake_.wait_for(lock, kBetweenLooks, [this]() REQUIRES(mu_) { return asked_ || over_; });
      if (over_) return;
      all = std::exchange(asked_, false);
    }
    for (Entry& entry : entries_) {
      const std::vector<Stamp> now = look(entry.paths);
      const bool settled = now == std::exchange(entry.last, now) && now != entry.known;
      if (!all && !settled) continue;
      entry.known = now;
      entry.changed();
    }
  }
}

}  // namespace coxswain::serve
