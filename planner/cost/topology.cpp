#include "planner/cost/topology.h"

#include <algorithm>
#include <map>

namespace mega::planner {

GroupSpan span_of(const Mesh& mesh, const Group& group, int gpus_per_node) {
  std::map<int, int> on_node;
  for (const int rank : members(mesh, group, 0)) ++on_node[rank / gpus_per_node];
  GroupSpan span{0, static_cast<int>(on_node.size()), on_node.begin()->second};
  for (const auto& [node, count] : on_node) {
    span.members += count;
    span.per_node = std::min(span.per_node, count);
  }
  return span;
}

Tier tier_between(int rank, int other, int gpus_per_node) {
  return rank / gpus_per_node == other / gpus_per_node ? Tier::Node : Tier::Network;
}

BytesPerSecond rate_per_rank(const ClusterSpec& cluster, Tier tier) {
  const LinkSpec& node = cluster.node;
  const LinkSpec& network = cluster.network;
  const bool has_network = network.bandwidth.count() > 0;
  if (tier == Tier::Node || !has_network) {
    return BytesPerSecond(node.bandwidth.count() * node.efficiency);
  }
  const double nics_per_gpu = static_cast<double>(network.nics) / cluster.gpus_per_node;
  return BytesPerSecond(network.bandwidth.count() * network.efficiency * nics_per_gpu /
                        network.oversubscription);
}

}  // namespace mega::planner
