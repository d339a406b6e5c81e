// Small jobs for the tests of the search: only the sizes that the rules look at.
#pragma once

#include <string>
#include <vector>

#include "planner/rules.h"
#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner::test {

struct Sizes {
  int layers = 4, heads = 4, kv_heads = 4, ffn_hidden = 64, sequence = 64, batch = 8, gpus = 4;
  int experts = 0;  // of every layer; 0: dense
};

inline JobSpec job_of(const Sizes& sizes) {
  JobSpec job;
  job.file = "job.yaml";
  job.model.layers = sizes.layers;
  job.model.heads = sizes.heads;
  job.model.kv_heads = sizes.kv_heads;
  job.model.ffn_hidden = sizes.ffn_hidden;
  job.model.max_position = sizes.sequence;
  job.training.sequence_length = sizes.sequence;
  job.training.global_batch = sizes.batch;
  if (sizes.experts > 0) {
    job.model.moe = MoeSpec{};
    job.model.moe->experts = sizes.experts;
    job.model.moe->top_k = 1;
    job.model.moe->ffn_hidden = sizes.ffn_hidden;
  }
  job.cluster = ClusterSpec{};
  job.cluster->gpus = sizes.gpus;
  job.cluster->gpus_per_node = sizes.gpus;
  job.cluster->gpu.memory = Bytes(1000);
  return job;
}

// Every legal canonical strategy by nested loops over all numbers: slow, plain, and independent of
// how the search walks its space.
inline std::vector<Strategy> all_legal(const JobSpec& job) {
  std::vector<Strategy> legal;
  const int gpus = job.cluster->gpus;
  const auto add = [&](const Strategy& strategy) {
    if (normalised(strategy) == strategy && is_legal(job, strategy)) legal.push_back(strategy);
  };
  const auto add_flags = [&](Strategy strategy) {
    for (int flags = 0; flags < 320; ++flags) {
      strategy.schedule = static_cast<ScheduleKind>(flags / 64);
      strategy.sequence_parallel = (flags & 4) != 0;
      strategy.overlap.gradient_reduce = (flags & 2) != 0;
      strategy.overlap.pipeline = (flags & 1) != 0;
      strategy.overlap.parameter_gather = (flags & 8) != 0;
      strategy.zero = flags / 16 % 4;
      strategy.zero_group = strategy.zero == 0 ? 1 : strategy.dp;
      add(strategy);
    }
  };
  const int most_expert = job.model.moe ? gpus : 1;
  const auto add_experts = [&](Strategy strategy) {
    for (strategy.ep = 1; strategy.ep <= most_expert; ++strategy.ep)
      for (strategy.etp = 1; strategy.etp <= most_expert; ++strategy.etp) add_flags(strategy);
  };
  Strategy s;
  for (s.tp = 1; s.tp <= gpus; ++s.tp)
    for (s.pp = 1; s.pp <= gpus; ++s.pp)
      for (s.vpp = 1; s.vpp <= job.model.layers; ++s.vpp)
        for (s.dp = 1; s.dp <= gpus; ++s.dp) {
          if (s.tp * s.pp * s.dp != gpus) continue;
          for (s.micro_batch = 1; s.micro_batch <= job.training.global_batch; ++s.micro_batch)
            add_experts(s);
        }
  return legal;
}

}  // namespace mega::planner::test
