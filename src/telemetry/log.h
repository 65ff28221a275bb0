#pragma once
// Structured log: one event, one line, as text or JSON.
//
//   text   2026-01-02T03:04:05.678901Z  INFO router: message key=value
//   JSON   {"timestamp":...,"level":...,"target":...,"message":...,"key":value}
//
// Prompts and keys are never logged above debug. The text of a field is cut to 256 bytes, a message to 4096,
// and both are escaped. warn_limited() keeps equal warnings from filling the log.
//
// Thread rule: any thread. Passed by reference from main(); there is no global logger.

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace coxswain::telemetry {

enum class Level : std::uint8_t {
  kTrace,
  kDebug,
  kInfo,
  kWarn,
  kError,
  kOff
};  // kOff: of LogOptions alone

// A value that is JSON already, from a trusted source: written as it is, whole.
struct JsonText {
  std::string_view text;
};

struct Field {
  std::string_view key;
  std::variant<std::int64_t, std::uint64_t, double, bool, std::string_view, JsonText> value;
};

struct LogOptions {
  Level level = Level::kInfo;  // from LOG_LEVEL
  bool json = false;           // --json-output
  bool colour = false;
  std::string target;  // "text_generation_router", ...
  int file_descriptor = 1;
};

class Logger {
 public:
  explicit Logger(LogOptions options);
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  bool enabled(Level level) const;
  // From now on; LogOptions::level until then.
  void set_level(Level level);
  void log(Level level, std::string_view message, std::initializer_list<Field> fields = {});
  void log(Level level, std::string_view message, std::span<const Field> fields);
  void debug(std::string_view message, std::initializer_list<Field> fields = {}) {
    log(Level::kDebug, message, fields);
  }
  void info(std::string_view message, std::initializer_list<Field> fields = {}) {
    log(Level::kInfo, message, fields);
  }
  void warn(std::string_view message, std::initializer_list<Field> fields = {}) {
    log(Level::kWarn, message, fields);
  }
  void error(std::string_view message, std::initializer_list<Field> fields = {}) {
    log(Level::kError, message, fields);
  }
  // At most one line per `key` and interval; the next line says how many were left out.
  void warn_limited(std::string_view key,
                    std::chrono::milliseconds interval,
                    std::string_view message,
                    std::initializer_list<Field> fields = {});
  // Writes a line that another process has formatted, as it is.
  void copy_line(std::string_view line);
  // Lines that could not be written (disk full, pipe closed, a reader that stands still). Writing
  // one never fails or ends the program, and it waits for a reader 100 ms at most, once.
  std::uint64_t dropped_lines() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "warn", "info", "debug", ..., "off"; anything else is kInfo.
Level parse_level(std::string_view text);

}  // namespace coxswain::telemetry
