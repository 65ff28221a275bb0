#include "telemetry/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include "base/mutex.h"
#include "base/utf8.h"
#include "telemetry/log_text.h"

namespace coxswain::telemetry {
namespace {

constexpr std::size_t kMessageBytesMax = 4096;
constexpr std::size_t kFieldBytesMax = 256;
constexpr std::size_t kLimitedKeysMax = 1024;
constexpr int kReaderPatienceMs = 100;

constexpr std::array<std::string_view, 6> kLevelNames{
    "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF"};
constexpr std::array<std::string_view, 5> kLevelColours{"35", "34", "32", "33", "31"};

std::string_view name_of(Level level) {
  return kLevelNames[static_cast<std::size_t>(level)];
}

// RFC 3339 in UTC with microseconds.
std::string timestamp_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 64> buffer{};
  const std::size_t length =
      std::strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H:%M:%S.", &parts);
  std::string micros = std::to_string(now.tv_nsec / 1000);
  micros.insert(0, 6 - micros.size(), '0');
  return std::string(buffer.data(), length) + micros + "Z";
}

std::string number_text(double value) {
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

void append_value(std::string& out, const Field& field, bool json) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) {
    append_quoted(
        out, base::cut_utf8(*text, kFieldBytesMax), json ? Quotes::kAlways : Quotes::kIfNeeded);
  } else if (const auto* object = std::get_if<JsonText>(&field.value)) {
    out += object->text;
  } else if (const auto* flag = std::get_if<bool>(&field.value)) {
    out += *flag ? "true" : "false";
  } else if (const auto* real = std::get_if<double>(&field.value)) {
    out += json && !std::isfinite(*real) ? "null" : number_text(*real);
  } else if (const auto* whole = std::get_if<std::int64_t>(&field.value)) {
    out += std::to_string(*whole);
  } else {
    out += std::to_string(std::get<std::uint64_t>(field.value));
  }
}

}  // namespace

struct Logger::Impl {
  explicit Impl(LogOptions log_options)
      : options(std::move(log_options)), level_min(options.level) {}

  void log(Level level,
           std::string_view message,
           std::span<const Field> fields,
           std::uint64_t left_out) {
    std::string line = options.json ? json_line(level, message, fields, left_out)
                                    : text_line(level, message, fields, left_out);
    line += '\n';
    write_line(line);
  }

  std::string text_line(Level level,
                        std::string_view message,
                        std::span<const Field> fields,
                        std::uint64_t left_out) const {
    const std::string_view name = name_of(level);
    std::string line = timestamp_now() + std::string(name.size() == 4 ? "  " : " ");
    if (options.colour) line.append("\x1b[").append(colour_of(level)).append("m");
    line += name;
    if (options.colour) line += "\x1b[0m";
    if (!options.target.empty()) line += " " + options.target + ":";
    line += ' ';
    append_escaped(line, base::cut_utf8(message, kMessageBytesMax), Escapes::kControl);
    for (const Field& field : fields) {
      line.append(" ").append(field.key).append("=");
      append_value(line, field, false);
    }
    if (left_out > 0) line += " left_out=" + std::to_string(left_out);
    return line;
  }

  std::string json_line(Level level,
                        std::string_view message,
                        std::span<const Field> fields,
                        std::uint64_t left_out) const {
    std::string line = "{\"timestamp\":\"" + timestamp_now() + "\",\"level\":\"";
    line.append(name_of(level)).append("\",\"target\":");
    append_quoted(line, options.target, Quotes::kAlways);
    line += ",\"message\":";
    append_quoted(line, base::cut_utf8(message, kMessageBytesMax), Quotes::kAlways);
    for (const Field& field : fields) {
      line += ',';
      append_quoted(line, field.key, Quotes::kAlways);
      line += ':';
      append_value(line, field, true);
    }
    if (left_out > 0) line += ",\"left_out\":" + std::to_string(left_out);
    return line + "}";
  }

  static std::string_view colour_of(Level level) {
    return kLevelColours[static_cast<std::size_t>(level)];
  }

  // Whether a write will not block. A reader that stood still once is not waited for again until it moves.
  bool has_room() REQUIRES(write_mutex) {
    pollfd output{options.file_descriptor, POLLOUT, 0};
    int n = 0;
    do {
      n = poll(&output, 1, stands_still ? 0 : kReaderPatienceMs);
    } while (n < 0 && errno == EINTR);
    stands_still = n == 0;
    return !stands_still;
  }

  // A line that cannot be written (disk full, closed pipe, a terminal that is held) is dropped:
  // serving goes on. A pipe that has room takes a piece of PIPE_BUF at once.
  void write_line(std::string_view line) {
    const base::MutexLock lock(write_mutex);
    const std::string completed = std::exchange(is_cut, false) ? "\n" + std::string(line) : "";
    if (!completed.empty()) line = completed;
    const std::size_t whole = line.size();
    while (!line.empty()) {
      const bool room = has_room();
      const std::size_t piece = std::min(line.size(), std::size_t{PIPE_BUF});
      const ssize_t n = room ? ::write(options.file_descriptor, line.data(), piece) : 0;
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        is_cut = line.size() < whole || !completed.empty();
        dropped.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      line.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  struct Limited {
    std::chrono::steady_clock::time_point last;
    std::uint64_t left_out = 0;
  };

  // Lines left out since the last one that was written, or nothing if this one is to be left out too.
  std::optional<std::uint64_t> admit(std::string_view key, std::chrono::milliseconds interval) {
    const auto now = std::chrono::steady_clock::now();
    const base::MutexLock lock(limited_mutex);
    const auto found = limited.find(key);
    if (found == limited.end()) {
      if (limited.size() >= kLimitedKeysMax) limited.erase(oldest());
      limited.emplace(std::string(key), Limited{now, 0});
      return 0;
    }
    Limited& entry = found->second;
    if (now - entry.last < interval) {
      ++entry.left_out;
      return std::nullopt;
    }
    entry.last = now;
    return std::exchange(entry.left_out, 0);
  }

  std::map<std::string, Limited, std::less<>>::iterator oldest() REQUIRES(limited_mutex) {
    return std::min_element(limited.begin(), limited.end(), [](const auto& a, const auto& b) {
      return a.second.last < b.second.last;
    });
  }

  const LogOptions options;
  std::atomic<Level> level_min;
  std::atomic<std::uint64_t> dropped{0};
  base::Mutex write_mutex;
  bool stands_still GUARDED_BY(write_mutex) = false;  // the reader
  bool is_cut GUARDED_BY(write_mutex) = false;        // the last line lacks its end
  base::Mutex limited_mutex;
  std::map<std::string, Limited, std::less<>> limited GUARDED_BY(limited_mutex);
};

Logger::Logger(LogOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Logger::~Logger() = default;

bool Logger::enabled(Level level) const {
  return level >= impl_->level_min.load(std::memory_order_relaxed);
}

void Logger::set_level(Level level) {
  impl_->level_min.store(level, std::memory_order_relaxed);
}

void Logger::log(Level level, std::string_view message, std::initializer_list<Field> fields) {
  log(level, message, std::span(fields.begin(), fields.size()));
}

void Logger::log(Level level, std::string_view message, std::span<const Field> fields) {
  if (enabled(level)) impl_->log(level, message, fields, 0);
}

void Logger::warn_limited(std::string_view key,
                          std::chrono::milliseconds interval,
                          std::string_view message,
                          std::initializer_list<Field> fields) {
  if (!enabled(Level::kWarn)) return;
  if (const auto left_out = impl_->admit(key, interval)) {
    impl_->log(Level::kWarn, message, std::span(fields.begin(), fields.size()), *left_out);
  }
}

void Logger::copy_line(std::string_view line) {
  impl_->write_line(std::string(line) + '\n');
}

std::uint64_t Logger::dropped_lines() const {
  return impl_->dropped.load(std::memory_order_relaxed);
}

Level parse_level(std::string_view text) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    const bool equal = std::equal(
        text.begin(), text.end(), kLevelNames[i].begin(), kLevelNames[i].end(), [](char a, char b) {
          return (a >= 'a' && a <= 'z' ? a - 'a' + 'A' : a) == b;
        });
    if (equal) return static_cast<Level>(i);
  }
  return Level::kInfo;
}

}  // namespace coxswain::telemetry
