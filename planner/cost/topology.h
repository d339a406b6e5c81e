// Where the ranks of a group sit: ranks fill the nodes in order.
#pragma once

#include "ir/mesh.h"
#include "planner/spec/cluster_spec.h"

namespace mega::planner {

struct GroupSpan {
  int members = 1;
  int nodes = 1;
  int per_node = 1;  // members on the node that holds the fewest
  bool operator==(const GroupSpan&) const = default;
};

// Of the group that rank 0 belongs to; the others lie alike when nodes divide evenly.
GroupSpan span_of(const Mesh& mesh, const Group& group, int gpus_per_node);

// What a message between two ranks goes over.
enum class Tier { Node, Network };
Tier tier_between(int rank, int other, int gpus_per_node);

// Rate at which one member of a group moves data: all GPUs of a node are taken to communicate at
// once (other groups of the same axis do the same), so each has its share of the NICs.
BytesPerSecond rate_per_rank(const ClusterSpec& cluster, Tier tier);

}  // namespace mega::planner
