// Small jobs, and all that evaluating their layouts needs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/costs.h"
#include "planner/model/add_backward.h"
#include "planner/model/build_model.h"
#include "planner/rules.h"
#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner {

// 13 layers, 64 ranks on nodes of four; GPT-2 with tied embeddings or Llama without.
inline JobSpec small_job(bool is_tied) {
  JobSpec job;
  ModelSpec& model = job.model;
  model.family = is_tied ? "gpt2" : "llama";
  model.layers = 13;
  model.hidden = 64;
  model.heads = 4;
  model.kv_heads = is_tied ? 4 : 2;
  model.head_dim = 16;
  model.ffn_hidden = 256;
  model.vocab = 1000;
  model.vocab_multiple = 8;
  model.max_position = 128;
  model.tied_embeddings = is_tied;
  model.bias_qkv = model.bias_attention_out = model.bias_mlp = is_tied;
  if (!is_tied) {
    model.norm = NormKind::RmsNorm;
    model.activation = ActivationKind::SwiGlu;
    model.position = PositionKind::Rope;
  }
  job.training.sequence_length = 128;
  job.training.global_batch = 24;
  ClusterSpec cluster;
  cluster.gpu.memory = Bytes(std::int64_t{1} << 40);
  cluster.gpu.peak_fp32 = FlopsPerSecond(1e12);
  cluster.gpu.peak_bf16 = FlopsPerSecond(8e12);
  cluster.gpu.bandwidth = BytesPerSecond(2e11);
  cluster.gpu.launch = Seconds(1e-6);
  cluster.nodes = 16;
  cluster.gpus_per_node = 4;
  cluster.gpus = 64;
  cluster.node = {"nvlink", BytesPerSecond(1e11), Seconds(1e-6)};
  cluster.network = {"infiniband", BytesPerSecond(1e10), Seconds(5e-6)};
  cluster.network.nics = 4;
  job.cluster = cluster;
  return job;
}

// A job with what evaluations of it share. Not to be moved: costs refer to it.
struct Setting {
  explicit Setting(JobSpec spec)
      : job(std::move(spec)),
        graph(add_backward(
            build_model(job.model, job.training.sequence_length, job.training.global_batch))),
        costs(job, graph) {}
  JobSpec job;
  ModelGraph graph;
  Costs costs;
};

// Legal strategies without a cut.
inline std::vector<Strategy> strategies(const JobSpec& job) {
  std::vector<Strategy> all;
  for (const int tp : {1, 2, 4}) {
    for (const int pp : {1, 2, 3, 4}) {
      for (const int dp : {1, 2, 3, 4}) {
        for (const int vpp : {1, 2, 3}) {
          for (const int micro_batch : {1, 2, 4}) {
            for (int flags = 0; flags < 20; ++flags) {
              Strategy s;
              s.tp = tp;
              s.pp = pp;
              s.dp = dp;
              s.vpp = vpp;
              s.micro_batch = micro_batch;
              const bool overlaps = flags / 2 % 2 == 1;
              s.schedule = static_cast<ScheduleKind>(flags / 4);
              s.sequence_parallel = flags % 2 == 1;
              s.overlap.gradient_reduce = s.overlap.pipeline = overlaps;
              // Every level beside every other field; on 4 data ranks over two pairs.
              const int levels = splits_backward(s.schedule) ? 2 : 4;
              s.zero = (tp / 2 + pp + vpp + micro_batch + flags) % levels;
              s.zero_group = dp == 4 ? 2 : dp;
              s.overlap.parameter_gather = pp % 2 == (overlaps ? 1 : 0);
              s = normalised(s);
              JobSpec any_world = job;
              any_world.cluster.reset();
              if (is_legal(any_world, s)) all.push_back(s);
            }
          }
        }
      }
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

inline std::vector<int> random_cut(std::mt19937& random, int layers, int stages) {
  std::vector<int> cut(static_cast<std::size_t>(stages), 1);
  for (int i = stages; i < layers; ++i) ++cut[random() % cut.size()];
  return cut;
}

// Untied, tied, and with two kinds of layers, one of each strategy.
inline void for_each_strategy(const std::function<void(Setting&, const Strategy&)>& visit) {
  for (const char* variant : {"untied", "tied", "mixed"}) {
    JobSpec job = small_job(variant == std::string("tied"));
    if (variant == std::string("mixed")) job.model.no_rope_every = 3;
    Setting setting(std::move(job));
    for (const Strategy& strategy : strategies(setting.job)) {
      SCOPED_TRACE(summary(strategy) + " " + variant);
      visit(setting, strategy);
    }
  }
}

}  // namespace mega::planner
