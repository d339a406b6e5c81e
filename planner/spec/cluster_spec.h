// The machines: what one GPU (or CPU rank) computes, and what links them.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/units.h"

namespace mega::planner {

// What fraction of a peak real kernels reach on large shapes; 1 where the peaks were measured.
struct EfficiencySpec {
  double matmul = 1;     // of the peak of the data type
  double attention = 1;  // of the same peak, forward and backward together
  double memory = 1;     // of the memory bandwidth
  bool operator==(const EfficiencySpec&) const = default;
};

struct GpuSpec {
  std::string name;
  bool is_cpu = false;
  Bytes memory;                                   // capacity per rank
  FlopsPerSecond peak_fp32, peak_bf16, peak_fp8;  // dense peaks; 0 when the type is unsupported
  BytesPerSecond bandwidth;                       // of its memory
  Seconds launch;                                 // fixed cost of one op
  EfficiencySpec efficiency;
};

// One tier of links. Bandwidth is per GPU and direction inside a node, per NIC and direction
// between nodes.
struct LinkSpec {
  std::string kind;  // "nvlink", "infiniband", "shared_memory"
  BytesPerSecond bandwidth;
  Seconds latency;              // fixed cost of one message, one step of a ring
  double efficiency = 1;        // fraction of `bandwidth` that large messages reach
  int nics = 1;                 // per node; of the network only
  double oversubscription = 1;  // of the network only
};

struct ClusterSpec {
  std::string name;
  GpuSpec gpu;
  int nodes = 1;
  int gpus_per_node = 1;
  int gpus = 1;  // the world: nodes * gpus_per_node unless given
  LinkSpec node;
  LinkSpec network;
  int threads_per_rank = 1;  // CPU only
};

}  // namespace mega::planner
