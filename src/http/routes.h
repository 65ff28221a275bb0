#pragma once
// Routes by path and method, and what CORS adds to an answer.
//
// Thread rule: filled before the server starts, read by its I/O threads from then on.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/server.h"

namespace coxswain::http {

class RouteTable {
 public:
  // A path that ends in "/*" stands for all longer ones; one that is named itself goes first.
  void add(std::string method, std::string path, Handler handler);

  bool has_path(std::string_view path) const { return methods_of(path) != nullptr; }
  // HEAD finds the handler of GET. Null if there is none.
  const Handler* find(std::string_view path, std::string_view method) const;
  // "GET, HEAD, POST", for the header Allow; empty for an unknown path.
  std::string allowed(std::string_view path) const;
  // The path that an unknown one most looks like; empty if it looks like none.
  std::string_view nearest(std::string_view path) const;

 private:
  using Methods = std::map<std::string, Handler, std::less<>>;
  // Null if there is no such path.
  const Methods* methods_of(std::string_view path) const;

  std::map<std::string, Methods, std::less<>> paths_;
};

class CorsPolicy {
 public:
  CorsPolicy() = default;
  explicit CorsPolicy(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  bool enabled() const { return !origins_.empty(); }
  // Headers for the answer to a request with this Origin; credentials are never allowed.
  void append_headers(std::string_view origin, std::vector<Header>& headers) const;
  // Further ones for the answer to a preflight request.
  static void append_preflight_headers(std::vector<Header>& headers);

 private:
  std::vector<std::string> origins_;
};

}  // namespace coxswain::http
