#pragma once
// ZigZag: which layers of which request a replica runs that is still loading (the target), and which the loaded one
// beside it (the donor), so that both are busy from the first layer on. The policy of BlitzScale (OSDI '25) that solves
// no integer program.
//
//   target: of the requests whose next layer has arrived it runs one layer of the earliest, then looks again. It gives
//           nothing away by itself.
//   donor:  when it is idle it takes the earliest request, with whatever progress it has, and runs the layers that are
//           left. Once the target has all layers, the request that it is about to finish stays with it.
//
// So the first requests are taken with few layers done, later ones with more, and nothing has to be solved. target_next
// and donor_next are the policy; zigzag runs it over known times, for planning and for comparison.
//
// Pure functions. Thread rule: none.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace coxswain::fleet {

// A request, or a batch, of the backlog; in order of arrival.
struct ZigZagTask {
  std::uint32_t layers_done = 0;
  bool gone = false;  // finished, or with the donor
};

// The task of which the target runs the next layer; empty if none has its next layer there.
std::optional<std::size_t> target_next(std::span<const ZigZagTask> tasks,
                                       std::uint32_t layers_ready);

// The task that the donor takes over. `running` is the one of which the target runs a layer at the moment: taken over,
// that layer is finished first.
std::optional<std::size_t> donor_next(std::span<const ZigZagTask> tasks,
                                      bool all_layers_ready,
                                      std::optional<std::size_t> running);

struct ZigZagTimes {
  std::vector<double> load_s;     // [layers] to load each, from the beginning of the load on; >= 0
  std::vector<double> compute_s;  // [layers] to run each for a task of weight 1; > 0
  std::vector<double> weights;  // [tasks] of the backlog; a batch's weight is its number of tokens
  double handover_s = 0.0;      // to pass activations to the donor
};

struct ZigZagShare {
  std::uint32_t target_layers = 0;  // the first ones; the donor runs the others
  double finished_s = 0.0;
};

struct ZigZagRun {
  std::vector<ZigZagShare> shares;  // [tasks]
  double mean_s = 0.0;
  double last_s = 0.0;
  std::size_t n_by_end_of_load = 0;  // tasks finished when the last layer arrives
};

ZigZagRun zigzag(const ZigZagTimes& times);
// What it is compared with: the target waits for its last layer, then runs whole tasks.
ZigZagRun stop_the_world(const ZigZagTimes& times);
// Whether the mean of zigzag is not above that of waiting. It hardly ever is; a very uneven backlog can make it so.
bool live_pays(const ZigZagTimes& times);
// The donor alone.
ZigZagRun without_target(const ZigZagTimes& times);

}  // namespace coxswain::fleet
