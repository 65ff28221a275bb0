#pragma once
// What a part of a request took, as traces have it, and who takes such parts.
//
// Form and meaning of the ids: W3C Trace Context (https://www.w3.org/TR/trace-context/). What leaves the process is
// made of these by module `otlp`.
//
// Thread rule: values, and pure functions but for new ids, which any thread may draw. SpanSink::add() from any thread.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::telemetry {

using TraceId = std::array<std::uint8_t, 16>;
using SpanId = std::array<std::uint8_t, 8>;  // all zeros: none

// Who called us, by the header `traceparent`.
struct TraceParent {
  TraceId trace{};
  SpanId span{};
  bool sampled = false;  // the caller keeps its part of the trace
};

// Empty unless the text is valid: it is not the client's fault that counts, the trace begins here then.
std::optional<TraceParent> parse_traceparent(std::string_view text);

// 32 hexadecimal digits.
std::string to_text(const TraceId& id);

TraceId new_trace_id();
SpanId new_span_id();

enum class SpanKind : std::uint8_t { kInternal, kServer };

struct Span {
  using Value = std::variant<std::string, std::int64_t, double>;

  TraceId trace{};
  SpanId id{};
  SpanId parent{};
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  TimePoint begin{};
  TimePoint end{};
  std::vector<std::pair<std::string_view, Value>> attributes{};  // names: constants
  std::optional<std::string> error{};                            // empty: it went well
};

class SpanSink {
 public:
  virtual ~SpanSink() = default;
  // Never waits: what there is no room for is dropped and counted.
  virtual void add(std::vector<Span> spans) = 0;
};

}  // namespace coxswain::telemetry
