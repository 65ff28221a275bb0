#pragma once
// The bytes of an answer: status line, headers, chunks, and the plain form of a refusal.
//
// Thread rule: pure functions.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "http/server.h"

namespace coxswain::http {

std::string_view reason_phrase(int status);
// The message as plain text, without a status: what ServerOptions::refusal is if nobody sets it.
Response plain_refusal(const Status& why);

// Statuses that never have a body.
bool is_bodiless(int status);

struct Framing {
  bool chunked = false;
  std::optional<std::size_t> content_length;  // neither: the body ends with the connection
  bool close = false;
  bool keep_alive_to_old = false;  // an HTTP/1.0 client asked for it
};

// Headers of `response` whose name or value could break the framing are left out, and so are those that belong
// to the framing.
void append_head(std::string& out,
                 const Response& response,
                 const Framing& framing,
                 std::string_view date,
                 const std::vector<Header>& extra);

// One chunk; nothing for no bytes (an empty chunk would end the body).
void append_chunk(std::string& out, std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string http_date(std::int64_t seconds_since_epoch);
// Of this second. Each thread keeps the last one that it made; the reference stands until its next call.
const std::string& http_date_now();

}  // namespace coxswain::http
