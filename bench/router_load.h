#pragma once
// What clients of text-generation-router feel, with a shard that computes nothing (WordRunner): the router alone on a
// core, clients and shard on another one.
//
// Dies with a message where something cannot be had. Thread rule: the main thread.

#include <cstddef>
#include <string>

namespace coxswain::bench {

struct RouterPlace {
  std::string program;
  std::string model;
};

struct ConnectionMemory {
  double idle_bytes = 0;    // of each
  double stream_bytes = 0;  // of each, while it streams
  double peak_mib = 0;      // of the whole router
};
ConnectionMemory connection_memory(const RouterPlace& place,
                                   std::size_t n_idle,
                                   std::size_t n_streams);

// From the last byte of a request to the first one of its answer's first event, less what of it the shard was at work
// until it had the first token: what the router adds, in ms.
struct AddedTime {
  double p50 = 0;
  double p99 = 0;
  double router_cores = 0;  // that it used
  std::size_t n = 0;
};
// `n_streams` clients, each with one stream of 64 tokens after the other; a step takes `step_ms`.
AddedTime added_time(const RouterPlace& place,
                     std::size_t n_streams,
                     double step_ms,
                     double seconds);

struct Overload {
  double capacity = 0;           // requests a second, measured
  double p99_saturated_ms = 0;   // of whole answers, as many clients as requests are let in
  double p99_overloaded_ms = 0;  // of those that are accepted of so many times the capacity
  double refused_share = 0;
  double p99_refusal_ms = 0;
};
Overload overload(const RouterPlace& place, double factor, double seconds);

}  // namespace coxswain::bench
