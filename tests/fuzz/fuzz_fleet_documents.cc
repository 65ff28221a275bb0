// What operators of BlitzScale bring, each read from the same bytes: a command to the cluster, a template, a deployment
// file and a list of stubs.

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "fleet/import/cluster_command.h"
#include "fleet/import/deployment.h"
#include "fleet/import/toml.h"
#include "fuzz/fuzz_input.h"

namespace {

using coxswain::fuzz::require;
namespace fleet = coxswain::fleet;
namespace json = coxswain::json;

void check_command(std::string_view body, const fleet::ClusterLayout& layout) {
  const auto commands = fleet::parse_cluster_command(body, layout);
  if (!commands.ok()) {
    require(!commands.status().message().empty(), "an error says why");
    return;
  }
  require(!commands->empty(), "what is accepted commands something");
  std::set<std::uint32_t> commanded;
  for (const fleet::ClusterCommand& command : *commands) {
    const auto replica = static_cast<std::uint32_t>(command.replica);
    require(replica < layout.n_replicas, "a command is for a replica that is there");
    require(commanded.insert(replica).second, "a replica has one command");
  }
}

void check_template(std::string_view text) {
  const auto table = fleet::parse_toml(text);
  if (!table.ok()) {
    require(!table.status().message().empty(), "an error says why");
    return;
  }
  require(table->is_object(), "a template is a table");
  const auto again = json::parse(json::write(*table));
  require(again.ok() && *again == *table, "its values are values of JSON");
}

void check_deployment(const json::Value& document) {
  const auto deployment = fleet::read_deployment(document);
  if (!deployment.ok()) {
    require(!deployment.status().message().empty(), "an error says why");
    return;
  }
  std::set<std::uint32_t> ranks;
  for (const fleet::Deployment::Replica& replica : deployment->replicas) {
    require(replica.ranks.size() == deployment->tensor_parallel, "replicas have the same size");
    for (const std::uint32_t rank : replica.ranks)
      require(ranks.insert(rank).second, "a rank is in one replica");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  coxswain::fuzz::Input input(data, size);
  fleet::ClusterLayout layout;
  layout.n_replicas = 1U + input.byte() % 8U;
  layout.tensor_parallel = 1U << input.byte() % 3U;
  const std::string_view text = input.rest();
  check_command(text, layout);
  check_template(text);
  const auto document = json::parse(text);
  if (!document.ok()) return 0;
  check_deployment(*document);
  const auto stubs = fleet::read_stubs(*document);
  require(stubs.ok() || !stubs.status().message().empty(), "an error says why");
  return 0;
}
