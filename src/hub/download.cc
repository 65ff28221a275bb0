#include "hub/download.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <sys/file.h>

#include "hub/digest.h"
#include "hub/range_fetch.h"
#include "hub/repo_files.h"

namespace coxswain::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kListBytesMax = std::size_t{16} << 20;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

// Bytes that a URL's path may hold as they are.
std::string quoted(std::string_view text, bool keeps_slash) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos || (keeps_slash && c == '/')) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

Status no_file(const fs::path& path, int error) {
  return {error == ENOSPC || error == EDQUOT ? Code::kResourceExhausted : Code::kFailedPrecondition,
          path.string() + " cannot be written: " + std::strerror(error)};
}

// A file descriptor, closed at the end.
class File {
 public:
  File(const fs::path& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? no_file(folder, error.value()) : Status();
}

bool tries_again(int status) {
  return status == 429 || status == 408 || status >= 500;
}

class Download {
 public:
  Download(const FetcherFactory& fetchers, const Wanted& wanted)
      : fetchers_(fetchers), fetcher_(fetchers()), wanted_(wanted) {
    std::string entry = "models--" + wanted.id;
    if (const std::size_t slash = entry.find('/'); slash != std::string::npos) {
      entry.replace(slash, 1, "--");
    }
    entry_ = fs::path(wanted.cache) / entry;
    locks_ = fs::path(wanted.cache) / ".locks" / entry;
  }

  Result<std::string> run() {
    COXSWAIN_ASSIGN_OR_RETURN(const std::string list, fetch_list());
    COXSWAIN_ASSIGN_OR_RETURN(const Repo repo, parse_repo(list));
    COXSWAIN_ASSIGN_OR_RETURN(const std::vector<RepoFile> files, choose_files(repo, wanted_.type));
    COXSWAIN_RETURN_IF_ERROR(make_folder(entry_ / "blobs"));
    COXSWAIN_RETURN_IF_ERROR(make_folder(locks_));
    COXSWAIN_RETURN_IF_ERROR(check_space(files));
    const fs::path snapshot = entry_ / "snapshots" / repo.commit;
    for (const RepoFile& file : files) {
      COXSWAIN_RETURN_IF_ERROR(bring(repo.commit, file).with_context(file.name));
      COXSWAIN_RETURN_IF_ERROR(link(snapshot, file));
    }
    COXSWAIN_RETURN_IF_ERROR(write_ref(repo.commit));
    return snapshot.string();
  }

 private:
  fs::path blob(const RepoFile& file) const { return entry_ / "blobs" / file.digest; }

  // What the hub says instead of a body.
  Status refusal(const FetchHead& head) const {
    const std::string said = "HTTP " + std::to_string(head.status) + " from " + wanted_.endpoint +
                             (head.message.empty() ? "" : ": " + head.message);
    if (head.status == 401 || head.status == 403) {
      return {Code::kFailedPrecondition,
              said + ". Set HF_TOKEN to a token that may read it, and accept its licence at " +
                  wanted_.endpoint + "/" + wanted_.id + " if it has one"};
    }
    if (head.status == 404) {
      return {Code::kNotFound,
              said + ". Check the name and --revision " + wanted_.revision +
                  "; a private model needs HF_TOKEN"};
    }
    return {tries_again(head.status) ? Code::kUnavailable : Code::kFailedPrecondition, said};
  }

  Result<std::string> fetch_list() const {
    const FetchRequest request{.url = wanted_.endpoint + "/api/models/" + wanted_.id +
                                      "/revision/" + quoted(wanted_.revision, false) +
                                      "?blobs=true",
                               .token = wanted_.token};
    std::string text;
    const auto sink = [&](const FetchHead&, std::string_view piece) -> Status {
      if (piece.size() > kListBytesMax - text.size()) {
        return {
            Code::kDataLoss,
            "the hub's list of files must be at most " + std::to_string(kListBytesMax) + " bytes"};
      }
      text += piece;
      return {};
    };
    const std::uint64_t none = 0;
    COXSWAIN_RETURN_IF_ERROR(wanted_.tries.run(none, [&](Tries::Pause& asked) -> Status {
      text.clear();
      COXSWAIN_ASSIGN_OR_RETURN(const FetchHead head, fetcher_->get(request, sink));
      asked = head.retry_after;
      return head.status == 200 ? Status() : refusal(head);
    }));
    return text;
  }

  Status check_space(const std::vector<RepoFile>& files) {
    std::uint64_t missing = 0;
    std::error_code error;
    for (const RepoFile& file : files) {
      progress_.model_bytes_all += file.size_bytes;
      if (fs::exists(blob(file), error)) continue;
      const auto part = fs::file_size(blob(file).string() + ".incomplete", error);
      missing += file.size_bytes - (error ? 0 : std::min<std::uint64_t>(part, file.size_bytes));
    }
    const fs::space_info space = fs::space(entry_, error);
    if (error || missing <= space.available) return {};
    return {Code::kResourceExhausted,
            entry_.string() + " has " + std::to_string(space.available) + " bytes free, " +
                std::to_string(missing) + " are needed"};
  }

  Status bring(const std::string& commit, const RepoFile& file) {
    const fs::path whole = blob(file);
    const std::uint64_t before = progress_.model_bytes;
    progress_.file = file.name;
    progress_.file_bytes_all = file.size_bytes;
    const File lock(locks_ / (file.digest + ".lock"), O_RDWR | O_CREAT);
    if (lock.fd() < 0) return no_file(locks_, errno);
    while (flock(lock.fd(), LOCK_EX) != 0) {
      if (errno != EINTR) return no_file(locks_, errno);
    }
    std::error_code error;
    const auto size = fs::file_size(whole, error);
    if (error || size != file.size_bytes) COXSWAIN_RETURN_IF_ERROR(fetch_blob(commit, file));
    progress_.file_bytes = file.size_bytes;
    progress_.model_bytes = before + file.size_bytes;
    wanted_.tell(progress_);
    return {};
  }

  Status fetch_blob(const std::string& commit, const RepoFile& file) {
    const fs::path part = blob(file).string() + ".incomplete";
    const std::uint64_t before = progress_.model_bytes;
    const File out(part, O_RDWR | O_CREAT);
    if (out.fd() < 0) return no_file(part, errno);
    const off_t end = lseek(out.fd(), 0, SEEK_END);
    std::uint64_t came = end < 0 ? 0 : static_cast<std::uint64_t>(end);
    if (came > file.size_bytes) came = 0;
    const FetchRequest request{.url = wanted_.endpoint + "/" + wanted_.id + "/resolve/" + commit +
                                      "/" + quoted(file.name, true),
                               .token = wanted_.token};
    if (file.size_bytes - came > wanted_.range_bytes) {
      Status ranged = fetch_ranged(request, file, {out.fd(), part}, came, before);
      if (!ranged.ok() && ranged.code() != Code::kUnimplemented) return ranged;
    }
    if (came < file.size_bytes) {
      COXSWAIN_RETURN_IF_ERROR(wanted_.tries.run(came, [&](Tries::Pause& asked) -> Status {
        FetchRequest next = request;
        next.offset = came;
        COXSWAIN_ASSIGN_OR_RETURN(const FetchHead head,
                                  fetch_part(next, file, {out.fd(), part}, came, before));
        asked = head.retry_after;
        if (head.status != 200 && head.status != 206) return refusal(head);
        if (came == file.size_bytes) return {};
        return {Code::kUnavailable,
                "the hub sent " + std::to_string(came) + " of " + std::to_string(file.size_bytes) +
                    " bytes"};
      }));
    }
    if (ftruncate(out.fd(), static_cast<off_t>(file.size_bytes)) != 0) return no_file(part, errno);
    COXSWAIN_RETURN_IF_ERROR(check_digest(out.fd(), part, file));
    if (fsync(out.fd()) != 0) return no_file(part, errno);
    return std::rename(part.c_str(), blob(file).c_str()) == 0 ? Status() : no_file(part, errno);
  }

  struct Part {
    int fd;
    const fs::path& path;
  };

  Result<FetchHead> fetch_part(const FetchRequest& request,
                               const RepoFile& file,
                               const Part& part,
                               std::uint64_t& came,
                               std::uint64_t before) {
    bool begun = false;
    const auto sink = [&](const FetchHead& head, std::string_view piece) -> Status {
      if (!begun && head.offset != came) {
        if (head.offset != 0) return {Code::kDataLoss, "the hub sent another range than asked for"};
        came = 0;  // it knows no ranges
      }
      begun = true;
      COXSWAIN_RETURN_IF_ERROR(check_total(head, file.size_bytes));
      if (piece.size() > file.size_bytes - came) {
        came = 0;
        std::error_code error;
        fs::remove(part.path, error);
        return {Code::kDataLoss,
                "the hub sent more than the " + std::to_string(file.size_bytes) +
                    " bytes that it listed"};
      }
      return append(piece, part, came, before);
    };
    return fetcher_->get(request, sink);
  }

  // What follows the bytes that came.
  Status append(std::string_view piece,
                const Part& part,
                std::uint64_t& came,
                std::uint64_t before) {
    while (!piece.empty()) {
      const ssize_t n = pwrite(part.fd, piece.data(), piece.size(), static_cast<off_t>(came));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return no_file(part.path, errno);
      came += static_cast<std::uint64_t>(n);
      piece.remove_prefix(static_cast<std::size_t>(n));
    }
    progress_.file_bytes = came;
    progress_.model_bytes = before + came;
    wanted_.tell(progress_);
    return {};
  }

  Status fetch_ranged(FetchRequest request,
                      const RepoFile& file,
                      const Part& part,
                      std::uint64_t& came,
                      std::uint64_t before) {
    request.offset = came;
    request.end = file.size_bytes;
    return fetch_ranges(
        {.fetchers = fetchers_,
         .request = request,
         .file_bytes = file.size_bytes,
         .n_connections = wanted_.n_connections,
         .range_bytes = wanted_.range_bytes,
         .tries = wanted_.tries,
         .take = [&](std::string_view bytes) { return append(bytes, part, came, before); },
         .refusal = [&](const FetchHead& head) { return refusal(head); }});
  }

  static Status check_digest(int fd, const fs::path& part, const RepoFile& file) {
    Digest digest(file.digest, file.size_bytes);
    std::vector<char> bytes(kReadBytes);
    for (std::uint64_t at = 0; at < file.size_bytes;) {
      const ssize_t n = pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (n <= 0) return {Code::kDataLoss, part.string() + " cannot be read back"};
      digest.add({bytes.data(), static_cast<std::size_t>(n)});
      at += static_cast<std::uint64_t>(n);
    }
    const std::string is = digest.hex();
    if (is == file.digest) return {};
    std::error_code error;
    fs::remove(part, error);
    return {Code::kDataLoss,
            "its bytes have the digest " + is + ", the hub listed " + file.digest +
                "; they were thrown away"};
  }

  Status link(const fs::path& snapshot, const RepoFile& file) const {
    const fs::path at = snapshot / file.name;
    COXSWAIN_RETURN_IF_ERROR(make_folder(at.parent_path()));
    const fs::path target = blob(file).lexically_relative(at.parent_path());
    std::error_code error;
    if (fs::read_symlink(at, error) == target) return {};
    const fs::path fresh = at.string() + "." + std::to_string(getpid());
    fs::remove(fresh, error);
    fs::create_symlink(target, fresh, error);
    if (!error) fs::rename(fresh, at, error);
    return error ? no_file(at, error.value()) : Status();
  }

  Status write_ref(const std::string& commit) const {
    if (wanted_.revision == commit) return {};
    const fs::path ref = entry_ / "refs" / wanted_.revision;
    COXSWAIN_RETURN_IF_ERROR(make_folder(ref.parent_path()));
    const fs::path fresh = ref.string() + "." + std::to_string(getpid());
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out << commit;
    out.close();
    if (!out) return no_file(fresh, errno);
    return std::rename(fresh.c_str(), ref.c_str()) == 0 ? Status() : no_file(ref, errno);
  }

  const FetcherFactory& fetchers_;
  const std::unique_ptr<Fetcher> fetcher_;
  const Wanted& wanted_;
  fs::path entry_;
  fs::path locks_;
  Progress progress_{};
};

}  // namespace

Result<std::string> download_model(const FetcherFactory& fetchers, const Wanted& wanted) {
  COXSWAIN_RETURN_IF_ERROR(check_repo_id(wanted.id));
  COXSWAIN_RETURN_IF_ERROR(check_revision(wanted.revision));
  Result<std::string> out = Download(fetchers, wanted).run();
  return out.ok() ? out : out.status().with_context(wanted.id);
}

}  // namespace coxswain::hub
