#include "planner/cost/collective_time.h"

#include <algorithm>
#include <bit>

namespace mega::planner {

namespace {

// Every member sends each other its part directly: what stays in the node and what leaves it go
// over different links at once, and each further peer costs a message.
Seconds all_to_all_time(const ClusterSpec& cluster, Bytes whole, const GroupSpan& span) {
  const double part = static_cast<double>(whole.count()) / span.members;
  const int far = span.members - span.per_node;
  const double near_time = part * (span.per_node - 1) / rate_per_rank(cluster, Tier::Node).count();
  const double far_time = part * far / rate_per_rank(cluster, Tier::Network).count();
  const double latency = (span.per_node - 1) * cluster.node.latency.count() +
                         (span.nodes - 1) * cluster.network.latency.count();
  return Seconds(std::max(near_time, far_time) + latency);
}

}  // namespace

Seconds collective_time(const ClusterSpec& cluster, OpKind kind, Bytes whole,
                        const GroupSpan& span) {
  if (span.members < 2) return Seconds(0);
  if (kind == OpKind::AllToAll || kind == OpKind::AllToAllV) {
    return all_to_all_time(cluster, whole, span);
  }
  if (kind == OpKind::RingShift) {
    const bool stays = span.nodes == 1;
    const LinkSpec& link = stays ? cluster.node : cluster.network;
    return whole / rate_per_rank(cluster, stays ? Tier::Node : Tier::Network) + link.latency;
  }
  // A ring moves (n - 1) / n of the buffer over each link, once for reduce_scatter and
  // all_gather, twice for all_reduce, which is both (Patarasuk & Yuan 2009).
  const double n = span.members;
  const double passes = kind == OpKind::AllReduce ? 2 : 1;
  const double on_wire = passes * (n - 1) / n * static_cast<double>(whole.count());
  // Between nodes the ring runs as many lanes as members share a node, each over its own NIC; a
  // single lane inside a node still carries all of it.
  double rate = rate_per_rank(cluster, Tier::Node).count();
  if (span.nodes > 1) {
    rate = std::min(rate, span.per_node * rate_per_rank(cluster, Tier::Network).count());
  }
  // Steps: a ring inside the node, a tree between nodes (double binary trees; Sanders, Speck &
  // Träff 2009), whose depth doesn't grow with the ring's length.
  const int depth = std::bit_width(static_cast<unsigned>(span.nodes) - 1U);
  const double latency = passes * ((span.per_node - 1) * cluster.node.latency.count() +
                                   depth * cluster.network.latency.count());
  return Seconds(on_wire / rate + latency);
}

Seconds message_time(const ClusterSpec& cluster, Bytes bytes, Tier tier) {
  const LinkSpec& link = tier == Tier::Node ? cluster.node : cluster.network;
  return bytes / rate_per_rank(cluster, tier) + link.latency;
}

}  // namespace mega::planner
