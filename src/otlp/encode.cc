#include "otlp/encode.h"

#include <chrono>

namespace coxswain::otlp {
namespace {

namespace wire = opentelemetry::proto::collector::trace::v1;

constexpr int kInternal = 1;
constexpr int kServer = 2;
constexpr int kError = 2;

template <std::size_t kN>
std::string bytes_of(const std::array<std::uint8_t, kN>& id) {
  return {id.begin(), id.end()};
}

void put(wire::AnyValue& to, const std::string& value) {
  to.set_string_value(value);
}
void put(wire::AnyValue& to, std::int64_t value) {
  to.set_int_value(value);
}
void put(wire::AnyValue& to, double value) {
  to.set_double_value(value);
}

template <typename Attributes>
void add_attribute(Attributes& attributes,
                   std::string_view name,
                   const telemetry::Span::Value& value) {
  wire::KeyValue& pair = *attributes.Add();
  pair.set_key(std::string(name));
  std::visit([&](const auto& v) { put(*pair.mutable_value(), v); }, value);
}

}  // namespace

TraceRequest encode(std::span<const telemetry::Span> spans, const Sender& sender) {
  const auto unix_now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const TimePoint now = Clock::now();
  const auto unix_time = [&](TimePoint time) {
    return static_cast<std::uint64_t>((unix_now - (now - time)).count());
  };
  TraceRequest out;
  wire::ResourceSpans& ours = *out.add_resource_spans();
  auto& facts = *ours.mutable_resource()->mutable_attributes();
  add_attribute(facts, "service.name", std::string(sender.service_name));
  add_attribute(facts, "service.version", std::string(sender.version));
  wire::ScopeSpans& scope = *ours.add_scope_spans();
  scope.mutable_scope()->set_name("coxswain");
  scope.mutable_scope()->set_version(std::string(sender.version));
  for (const telemetry::Span& span : spans) {
    wire::SpanMessage& to = *scope.add_spans();
    to.set_trace_id(bytes_of(span.trace));
    to.set_span_id(bytes_of(span.id));
    if (span.parent != telemetry::SpanId{}) to.set_parent_span_id(bytes_of(span.parent));
    to.set_name(span.name);
    to.set_kind(span.kind == telemetry::SpanKind::kServer ? kServer : kInternal);
    to.set_start_time_unix_nano(unix_time(span.begin));
    to.set_end_time_unix_nano(unix_time(span.end));
    for (const auto& [name, value] : span.attributes)
      add_attribute(*to.mutable_attributes(), name, value);
    if (span.error) {
      to.mutable_status()->set_code(kError);
      to.mutable_status()->set_message(*span.error);
    }
  }
  return out;
}

}  // namespace coxswain::otlp
