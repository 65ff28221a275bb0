#include "rpc/socket_listener.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <poll.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/thread_name.h"

namespace coxswain::rpc {

namespace {

using telemetry::Level;

// Which file a path names, to see whether somebody put another one there.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

bool file_at(const std::string& path, FileId& out) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return false;
  out = {.device = found.st_dev, .inode = found.st_ino};
  return true;
}

std::string error_text() {
  return std::generic_category().message(errno);
}

Status refused(std::string message) {
  return {Code::kFailedPrecondition, ErrorKind::kUnavailable, std::move(message)};
}

// The file system does not let us; `errno` says why.
Status cannot(const std::string& what) {
  return {Code::kUnavailable, ErrorKind::kUnavailable, "cannot " + what + ": " + error_text()};
}

Status make_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return {};
  const std::string folder = path.substr(0, slash);
  if (::mkdir(folder.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  return cannot("make the folder " + folder);
}

// Takes the lock file. The file may be removed by the server that held it, between our open() and
// flock(), so what we locked must still be what the path names.
Result<Descriptor> take_lock(const std::string& path) {
  for (;;) {
    Descriptor fd(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
    if (!fd.valid()) return cannot("open " + path);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return cannot("lock " + path);
      std::array<char, 32> holder{};
      const ssize_t n = ::pread(fd.get(), holder.data(), holder.size(), 0);
      return refused(
          "another server is running here: it holds " + path +
          (n > 0 ? " (process " + std::string(holder.data(), static_cast<std::size_t>(n)) + ")"
                 : ""));
    }
    struct stat locked {};
    FileId named;
    if (::fstat(fd.get(), &locked) != 0) return cannot("look at " + path);
    if (!file_at(path, named) || named != FileId{.device = locked.st_dev, .inode = locked.st_ino})
      continue;
    const std::string pid = std::to_string(::getpid());
    if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), pid.data(), pid.size(), 0) < 0) {
      return cannot("write " + path);
    }
    return fd;
  }
}

}  // namespace

struct SocketListener::Impl {
  Impl(Options options_in, OnConnection on_connection_in, telemetry::Logger& log_in)
      : options(std::move(options_in)), on_connection(std::move(on_connection_in)), log(log_in) {}

  Status open() {
    COXSWAIN_RETURN_IF_ERROR(check_socket_path(options.path));
    COXSWAIN_RETURN_IF_ERROR(make_folder_of(options.path));
    COXSWAIN_ASSIGN_OR_RETURN(lock, take_lock(lock_path()));
    stop_event.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop_event.valid()) return cannot("make an event descriptor");
    return listen();
  }

  ~Impl() {
    if (thread.joinable()) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t n = ::write(stop_event.get(), &one, sizeof(one));
      thread.join();
    }
    if (!lock.valid()) return;
    if (FileId now; listener.valid() && file_at(options.path, now) && now == socket_id)
      ::unlink(options.path.c_str());
    ::unlink(lock_path().c_str());
  }

  std::string lock_path() const { return options.path + ".lock"; }

  Status listen() {
    COXSWAIN_ASSIGN_OR_RETURN(listener, listen_unix(options.path));
    if (!file_at(options.path, socket_id))
      return refused("the socket " + options.path + " vanished");
    return {};
  }

  void run() {
    auto next_check = std::chrono::steady_clock::now() + options.check_interval;
    for (;;) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= next_check) {
        check_path();
        next_check = now + options.check_interval;
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_check - now);
      // A listener that could not be made again is -1 and ignored by poll() until the next look.
      std::vector<pollfd> fds{{.fd = stop_event.get(), .events = POLLIN, .revents = 0},
                              {.fd = listener.get(), .events = POLLIN, .revents = 0}};
      for (const Descriptor& fd : silent)
        fds.push_back({.fd = fd.get(), .events = POLLIN, .revents = 0});
      ::poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
      if (fds[0].revents != 0) return;
      std::erase_if(silent, [&, at = std::size_t{2}](Descriptor& fd) mutable {
        return fds[at++].revents != 0 && !is_still_silent(fd);
      });
      if (fds[1].revents != 0 && !accept_one()) return;
    }
  }

  // Hands the connection over if it has said something; one that has ended is closed.
  bool is_still_silent(Descriptor& fd) const {
    char first = 0;
    const ssize_t n = ::recv(fd.get(), &first, 1, MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n > 0) on_connection(std::move(fd), first);
    return false;
  }

  void check_path() {
    if (FileId now; listener.valid() && file_at(options.path, now) && now == socket_id) return;
    listener.reset(-1);
    if (Status status = make_folder_of(options.path); !status.ok()) {
      log.warn_limited("rpc.listen",
                       std::chrono::minutes(1),
                       "cannot make the socket again",
                       {{"error", status.message()}});
      return;
    }
    if (Status status = listen(); !status.ok()) {
      log.warn_limited("rpc.listen",
                       std::chrono::minutes(1),
                       "cannot make the socket again",
                       {{"error", status.message()}});
      return;
    }
    log.warn("the socket file was gone and was made again", {{"path", options.path}});
  }

  // False when we were told to stop.
  bool accept_one() {
    Descriptor fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      if (peer_is_trusted(fd.get())) {
        silent.push_back(std::move(fd));
      } else {
        log.warn_limited(
            "rpc.peer", std::chrono::minutes(1), "refused a connection of another user", {});
      }
      return true;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return true;
    // Out of descriptors or memory: the connection stays in the backlog; look again soon, without spinning.
    log.warn_limited("rpc.accept",
                     std::chrono::minutes(1),
                     "cannot accept a connection",
                     {{"error", error_text()}});
    constexpr int kPauseMs = 100;
    pollfd stop{.fd = stop_event.get(), .events = POLLIN, .revents = 0};
    return ::poll(&stop, 1, kPauseMs) == 0;
  }

  const Options options;
  const OnConnection on_connection;
  telemetry::Logger& log;
  Descriptor lock;
  Descriptor stop_event;
  Descriptor listener;
  std::vector<Descriptor> silent;  // accepted, and have not said what they are for
  FileId socket_id;
  std::thread thread;
};

SocketListener::SocketListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SocketListener::~SocketListener() = default;

Result<std::unique_ptr<SocketListener>> SocketListener::start(Options options,
                                                              OnConnection on_connection,
                                                              telemetry::Logger& log) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(on_connection), log);
  COXSWAIN_RETURN_IF_ERROR(impl->open());
  impl->thread = std::thread([raw = impl.get()] {
    base::name_thread("listener");
    raw->run();
  });
  return std::unique_ptr<SocketListener>(new SocketListener(std::move(impl)));
}

Status SocketListener::check_free(const std::string& path) {
  COXSWAIN_RETURN_IF_ERROR(check_socket_path(path));
  COXSWAIN_RETURN_IF_ERROR(make_folder_of(path));
  const std::string lock_path = path + ".lock";
  COXSWAIN_ASSIGN_OR_RETURN(const Descriptor lock, take_lock(lock_path));
  ::unlink(lock_path.c_str());  // while it is still ours
  return {};
}

const std::string& SocketListener::path() const {
  return impl_->options.path;
}

}  // namespace coxswain::rpc
