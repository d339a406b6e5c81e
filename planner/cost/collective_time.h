// How long ranks take to exchange data: latency and bandwidth (the alpha-beta model; Thakur,
// Rabenseifner & Gropp 2005).
#pragma once

#include "ir/base/units.h"
#include "ir/op.h"
#include "planner/cost/topology.h"
#include "planner/spec/cluster_spec.h"

namespace mega::planner {

// `whole` is the buffer that all members together see: of an all_reduce its operand, of a
// reduce_scatter the input, of an all_gather the output; of an all_to_all what one member sends or
// receives, its own part included.
Seconds collective_time(const ClusterSpec& cluster, OpKind kind, Bytes whole,
                        const GroupSpan& span);

// One message from one rank to another.
Seconds message_time(const ClusterSpec& cluster, Bytes bytes, Tier tier);

}  // namespace mega::planner
