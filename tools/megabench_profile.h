// What megabench measures of this machine, and the cluster spec that says it.
//
// All ranks work at once in every measurement, as they do in training: cores that share a cache,
// a memory bus or a turbo budget then show the rate that a rank really gets. Each figure is the
// median of several repetitions of several calls through the kernels and communicators that
// megarun uses.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/base/result.h"
#include "ir/base/units.h"

namespace mega::bench {

struct Options {
  bool quick = false;  // about ten seconds instead of a minute
  int ranks = 1;       // one per core
};

// y[m,n] = x[m,k] w[n,k]^T, one rank's rate.
struct MatMulRate {
  std::int64_t m = 0, n = 0, k = 0;
  FlopsPerSecond rate;
};

// Forward and backward of causal attention together, FLOPs of the causal half.
struct AttentionRate {
  std::int64_t sequence = 0, head_dim = 0;
  FlopsPerSecond rate;
};

struct StreamRate {
  std::string kernel;
  BytesPerSecond rate;  // bytes read and written, as the plan counts them
};

struct LinkTime {
  std::string operation;  // "all_reduce", "exchange"
  Bytes bytes;
  Seconds time;
};

struct Profile {
  int ranks = 1;
  std::string processor;  // as the system names it; empty when unknown
  Bytes memory_available;
  std::vector<MatMulRate> matmul;
  std::vector<AttentionRate> attention;
  std::vector<StreamRate> stream;
  Seconds launch;               // of the smallest op
  std::vector<LinkTime> links;  // between two ranks
};

// Median time of one call: `make_work(rank)` is called on each rank's own thread and yields what
// to time; the calls of all ranks start together.
Seconds median_time(int ranks, int repetitions,
                    const std::function<std::function<void()>(int rank)>& make_work);

void measure_kernels(const Options& options, Profile& profile);
Status measure_links(const Options& options, Profile& profile);
Result<Profile> measure(const Options& options);

// Alpha and beta of a link from its smallest and largest measured message:
//   time = latency + bytes / bandwidth
struct Link {
  Seconds latency;
  BytesPerSecond bandwidth;
};
Link fit_link(const std::vector<LinkTime>& times);

std::string cluster_text(const Profile& profile, const Options& options);

}  // namespace mega::bench
