#pragma once
// Framing of server-sent events: one event is `data: ` + compact JSON + two line feeds, and goes out as one HTTP chunk.
// Anthropic's begin with `event: ` + name + a line feed. Ollama's streams are lines of JSON instead.
//
// Thread rule: pure function.

#include <string>
#include <string_view>

namespace coxswain::api {

inline constexpr std::string_view kSseContentType = "text/event-stream";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";  // ends OpenAI's streams only
inline constexpr std::string_view kSseKeepAlive = ":\n\n";
inline constexpr std::string_view kNdjsonContentType = "application/x-ndjson";
// White space in front of the next line: an empty line would be no JSON.
inline constexpr std::string_view kNdjsonKeepAlive = " ";

inline std::string sse_event(std::string_view json_text) {
  std::string out;
  out.reserve(json_text.size() + 8);
  out += "data: ";
  out += json_text;
  out += "\n\n";
  return out;
}

inline std::string sse_event(std::string_view name, std::string_view json_text) {
  std::string out = "event: ";
  out += name;
  out += '\n';
  out += sse_event(json_text);
  return out;
}

}  // namespace coxswain::api
