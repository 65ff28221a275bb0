#pragma once
// Runs parsers over answers, whole and in pieces.

#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reply/parser.h"

namespace coxswain::reply::testing {

// A text as tokens give it: parts of it are special tokens.
struct Piece {
  std::string text;
  bool special = false;
};

struct Call {
  std::string name;
  std::string arguments;
  std::string id = {};
  friend bool operator==(const Call&, const Call&) = default;
};

struct Reply {
  std::string reasoning = {};
  std::string content = {};
  std::vector<Call> calls = {};
  friend bool operator==(const Reply&, const Reply&) = default;
};

// For failure messages.
inline std::ostream& operator<<(std::ostream& out, const Reply& reply) {
  out << "thoughts: " << reply.reasoning << "\ncontent: " << reply.content;
  for (const Call& call : reply.calls)
    out << "\ncall " << call.id << ": " << call.name << call.arguments;
  return out;
}

// Parts of one kind that follow one another as one part.
inline std::vector<Part> joined(const std::vector<Part>& parts) {
  std::vector<Part> all;
  all.reserve(parts.size());
  for (const Part& part : parts) {
    const bool same =
        !all.empty() && all.back().kind == part.kind && part.kind != Part::Kind::kCall;
    if (same) {
      all.back().text += part.text;
    } else {
      all.push_back(part);
    }
  }
  return all;
}

inline Reply gathered(const std::vector<Part>& parts) {
  Reply reply;
  reply.calls.reserve(parts.size());
  for (const Part& part : parts) {
    switch (part.kind) {
      case Part::Kind::kText:
        reply.content += part.text;
        break;
      case Part::Kind::kReasoning:
        reply.reasoning += part.text;
        break;
      case Part::Kind::kCall:
        reply.calls.push_back({part.text, "", part.id});
        break;
      case Part::Kind::kArguments:
        reply.calls.back().arguments += part.text;
        break;
    }
  }
  return reply;
}

// `text` with every occurrence of a text of `special` as a piece of its own.
inline std::vector<Piece> pieces_of(std::string_view text, std::span<const std::string> special) {
  std::vector<Piece> pieces;
  std::string plain;
  while (!text.empty()) {
    std::size_t length = 0;
    for (const std::string& token : special) {
      if (text.starts_with(token)) length = std::max(length, token.size());
    }
    if (length == 0) {
      plain += text.front();
      text.remove_prefix(1);
      continue;
    }
    if (!plain.empty()) pieces.push_back({std::exchange(plain, {}), false});
    pieces.push_back({std::string(text.substr(0, length)), true});
    text.remove_prefix(length);
  }
  if (!plain.empty()) pieces.push_back({plain, false});
  return pieces;
}

// `pieces` with those that are not special cut before each of their bytes that `cuts` wants, counted over all.
template <typename Cuts>
std::vector<Piece> cut(const std::vector<Piece>& pieces, const Cuts& cuts) {
  std::vector<Piece> all;
  std::size_t at = 0;
  for (const Piece& piece : pieces) {
    all.push_back({"", piece.special});
    for (const char c : piece.text) {
      const bool here = !piece.special && !all.back().text.empty();
      if (here && cuts(at)) all.push_back({"", false});
      all.back().text += c;
      ++at;
    }
  }
  return all;
}

inline std::vector<Part> parts_of(const ParserSetup& setup, const std::vector<Piece>& pieces) {
  const std::unique_ptr<Parser> parser = make_parser(setup);
  std::vector<Part> parts;
  for (const Piece& piece : pieces) parser->push(piece.text, piece.special, parts);
  parser->finish(parts);
  return joined(parts);
}

// The parts of the whole answer. `differs`, if not null, is set to the cut at which they come out otherwise; -1 stands
// for a cut before every byte.
inline std::vector<Part> parts_at_every_cut(const ParserSetup& setup,
                                            const std::vector<Piece>& pieces,
                                            std::optional<long>& differs) {
  std::vector<Part> whole = parts_of(setup, pieces);
  std::size_t size = 0;
  for (const Piece& piece : pieces) size += piece.text.size();
  for (std::size_t position = 1; position < size; ++position) {
    const auto here = [position](std::size_t at) { return at == position; };
    if (parts_of(setup, cut(pieces, here)) != whole) differs = static_cast<long>(position);
  }
  if (parts_of(setup, cut(pieces, [](std::size_t) { return true; })) != whole) differs = -1;
  return whole;
}

}  // namespace coxswain::reply::testing
