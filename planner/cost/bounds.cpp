#include "planner/cost/bounds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "planner/cost/evaluate.h"
#include "planner/cost/step_work.h"
#include "planner/lower/assign_memory.h"
#include "planner/lower/sharding.h"

namespace mega::planner {
namespace {

// What the parameters of a block take between steps.
Bytes parameter_bytes(const BlockCosts& blocks, const BlockCost& block, int states,
                      bool without_tied) {
  Bytes bytes;
  for (const auto& [bucket, count] : block.buckets) {
    if (without_tied && bucket.is_tied) continue;
    bytes += bucket_bytes(blocks.graph.zero, states, bucket, count);
  }
  return bytes;
}

// Of one micro-batch; FLOPs of any unit without a cluster, as only ratios matter then.
std::int64_t time_of(const Costs& costs, const BlockCost& block) {
  if (costs.job().cluster) return block.forward_ns + block.backward_ns + block.weight_ns;
  return static_cast<std::int64_t>(block.flops / 1000);
}

// The ranks as lines in some time of a block.
template <class TimeOf>
StageLines time_lines(const BlockCosts& blocks, const Strategy& strategy, const TimeOf& time) {
  StageLines lines;
  const auto& kinds = blocks.layer_kinds;
  for (std::size_t i = 1; i + 1 < blocks.graph.chain.size(); ++i) {
    const auto kind = std::find(kinds.begin(), kinds.end(), blocks.graph.chain[i]);
    lines.layers.push_back(static_cast<int>(kind - kinds.begin()));
  }
  for (const BlockKindId kind : kinds) lines.layer_time.push_back(time(blocks.kinds[kind]));
  lines.layer_scratch.resize(kinds.size());
  lines.ranks.resize(static_cast<std::size_t>(strategy.pp));
  for (RankLine& rank : lines.ranks) {
    rank.chunk_time.assign(static_cast<std::size_t>(strategy.vpp), 0);
    rank.layer_memory.assign(static_cast<std::size_t>(strategy.vpp),
                             std::vector<Bytes>(kinds.size()));
  }
  RankLine& last = has_one_end(strategy) ? lines.ranks.front() : lines.ranks.back();
  lines.ranks.front().chunk_time.front() += time(blocks.embedding());
  last.chunk_time.back() += time(blocks.head());
  for (RankLine& rank : lines.ranks) {
    rank.fixed_time =
        std::accumulate(rank.chunk_time.begin(), rank.chunk_time.end(), std::int64_t{0});
  }
  lines.schedule = strategy.schedule;
  return lines;
}

// Equals stage_memory() of every cut: memory composes block by block (lower/assign_memory.h).
void add_memory(Costs& costs, const Strategy& strategy, StageLines& lines) {
  const BlockCosts& blocks = costs.blocks(strategy);
  const auto& slots = costs.slots(schedule_shape(costs, strategy));
  const int states = optimizer_states(costs.job().training.optimizer);
  const Bytes stream = stream_bytes(blocks.graph);
  const auto parameters = [&](const BlockCost& block, bool without_tied) {
    return parameter_bytes(blocks, block, states, without_tied);
  };
  for (std::size_t k = 0; k < lines.layer_scratch.size(); ++k) {
    lines.layer_scratch[k] = blocks.kinds[blocks.layer_kinds[k]].scratch;
  }
  for (std::size_t r = 0; r < lines.ranks.size(); ++r) {
    RankLine& rank = lines.ranks[r];
    const bool is_first = r == 0;
    const bool is_last = has_one_end(strategy) ? is_first : r + 1 == lines.ranks.size();
    rank.fixed_memory = Bytes(kScalarBytes);
    for (std::size_t c = 0; c < rank.layer_memory.size(); ++c) {
      const std::size_t slot = std::min(c, slots[r].size() - 1);  // shared at the bottom of a V
      for (std::size_t k = 0; k < blocks.layer_kinds.size(); ++k) {
        const BlockCost& layer = blocks.kinds[blocks.layer_kinds[k]];
        rank.layer_memory[c][k] = parameters(layer, false) + layer.slot * slots[r][slot];
      }
    }
    for (const int count : slots[r]) {
      rank.fixed_memory += stream * 2 * count;  // what is sent, and its gradient
    }
    if (is_first) {
      const BlockCost& embedding = blocks.embedding();
      rank.fixed_memory += parameters(embedding, false) + embedding.slot * slots[r].front();
      rank.scratch = std::max(rank.scratch, embedding.scratch);
    }
    if (is_last) {  // sends nothing
      const BlockCost& head = blocks.head();
      rank.fixed_memory += parameters(head, has_one_end(strategy)) + head.slot * slots[r].back() -
                           stream * slots[r].back();
      rank.scratch = std::max(rank.scratch, head.scratch);
    }
  }
}

// Sum and least over all layers of some time of a layer.
template <class TimeOf>
std::int64_t layers_ns(const BlockCosts& blocks, const TimeOf& time) {
  std::int64_t ns = 0;
  for (std::size_t k = 0; k < blocks.layer_kinds.size(); ++k) {
    ns += blocks.layer_counts[k] * time(blocks.kinds[blocks.layer_kinds[k]]);
  }
  return ns;
}

template <class TimeOf>
std::int64_t least_layer_ns(const BlockCosts& blocks, const TimeOf& time) {
  std::int64_t ns = time(blocks.kinds[blocks.layer_kinds.front()]);
  for (const BlockKindId kind : blocks.layer_kinds) ns = std::min(ns, time(blocks.kinds[kind]));
  return ns;
}

// What reducing a block's gradients and gathering its weights adds at least to a step of the rank
// that holds it: latencies are left out, and the rounding of each piece is given away.
class LeastTravel {
 public:
  LeastTravel(Costs& costs, const Strategy& strategy, const Mesh& mesh)
      : costs_(costs),
        mesh_(mesh),
        experts_(expert_mesh(strategy)),
        zero_(costs.blocks(strategy).graph.zero),
        shape_(schedule_shape(costs, strategy)) {}

  std::int64_t reduction(const BlockCost& block) const {
    return shape_.overlap_gradient_reduce ? 0 : sum(block, reduce_ns);
  }
  std::int64_t gather(const BlockCost& block) const {
    return shape_.gathers_parameters ? 0 : sum(block, gather_ns);
  }

 private:
  template <class TimeOf>
  std::int64_t sum(const BlockCost& block, const TimeOf& time) const {
    std::int64_t ns = 0;
    for (const auto& [bucket, elements] : block.buckets) {
      const Mesh& mesh = bucket.mesh == 0 ? mesh_ : experts_;
      const std::int64_t own =
          time(costs_, mesh, zero_, bucket, elements) - time(costs_, mesh, zero_, bucket, 0);
      // Up to two collectives, each rounded.
      ns += std::max<std::int64_t>(own - 2, 0);
    }
    return ns;
  }

  Costs& costs_;
  const Mesh& mesh_;
  Mesh experts_;
  int zero_;
  ScheduleShape shape_;
};

// Of a micro-batch's way through a block and back: a weight gradient that is split off may come
// later.
std::int64_t pass_ns(const BlockCost& block) {
  return block.forward_ns + block.backward_ns;
}

// One micro-batch's way through all stages and back, transfers included.
std::int64_t path_ns(Costs& costs, const Strategy& strategy) {
  const BlockCosts& blocks = costs.blocks(strategy);
  std::int64_t ns =
      pass_ns(blocks.embedding()) + pass_ns(blocks.head()) + layers_ns(blocks, pass_ns);
  const std::vector<std::int64_t> transfer = transfers_ns(costs, strategy);
  const auto rank_of = [&](int stage) {
    return place_of_stage(strategy.schedule, strategy.pp, stage).rank;
  };
  for (int s = 0; s + 1 < strategy.pp * strategy.vpp; ++s) {
    const int from = rank_of(s), to = rank_of(s + 1);
    if (from == to) continue;  // the bottom of a V
    const int edge = to == (from + 1) % strategy.pp ? from : to;
    ns += 2 * transfer[static_cast<std::size_t>(edge)];
  }
  return ns;
}

// With vpp 1, beyond the path of one micro-batch. Rank r runs w + 1 forwards before its first
// backward, w <= pp - r - 1 but in GPipe (m - 1), and cannot run that one before the first
// micro-batch came back from the last rank; m - w - 1 forwards and m backwards follow, and then
// the last gradient's way down:
//   step >= path + (m - 1) (F_r + B_r) - w F_r
// Some rank has F + B of at least the least bottleneck of all cuts; F is a share of it.
std::int64_t steady_ns(Costs& costs, const Strategy& strategy, std::int64_t m) {
  const BlockCosts& blocks = costs.blocks(strategy);
  double share = 0;
  for (const BlockCost& block : blocks.kinds) {
    const auto both = static_cast<double>(pass_ns(block));
    if (both > 0) share = std::max(share, static_cast<double>(block.forward_ns) / both);
  }
  const bool is_gpipe = strategy.schedule == ScheduleKind::Gpipe;
  const auto warm_up =
      static_cast<double>(is_gpipe ? m - 1 : std::min<std::int64_t>(strategy.pp - 1, m));
  const double turns = static_cast<double>(m - 1) - warm_up * share;
  if (turns <= 0) return 0;
  const StageLines lines = time_lines(blocks, strategy, pass_ns);
  return static_cast<std::int64_t>(turns * static_cast<double>(least_time(lines)) * (1 - 1e-12));
}

std::int64_t least_step_ns(Costs& costs, const Strategy& strategy) {
  const BlockCosts& blocks = costs.blocks(strategy);
  const Mesh mesh = place(costs.graph(), strategy).mesh;
  const LeastTravel travel(costs, strategy, mesh);
  const auto reduce = [&](const BlockCost& block) { return travel.reduction(block); };
  const auto update = [&](const BlockCost& block) {
    return block.update_ns + travel.gather(block);
  };
  const std::int64_t m = micro_batches(strategy, costs.job().training.global_batch);
  const bool one_copy = has_one_end(strategy);
  // All that the busiest rank has to do.
  const StageLines lines = time_lines(blocks, strategy, [&](const BlockCost& block) {
    const std::int64_t step = m * time_of(costs, block);
    if (one_copy && &block == &blocks.head()) return step;  // its tied tensor is the embedding's
    return step + block.zero_ns + reduce(block) + update(block);
  });
  // The first micro-batch's way, the steady state, what any rank then has left, an update.
  std::int64_t fill = path_ns(costs, strategy);
  if (strategy.vpp == 1) fill += steady_ns(costs, strategy, m);
  fill += strategy.vpp * least_layer_ns(blocks, reduce);
  fill += (update(blocks.embedding()) + layers_ns(blocks, update)) / strategy.pp;
  return std::max(least_time(lines), fill) + metrics_ns(costs, mesh, metrics_count(blocks.graph));
}

}  // namespace

StageLines stage_lines(Costs& costs, const Strategy& strategy) {
  StageLines lines = time_lines(costs.blocks(strategy), strategy,
                                [&](const BlockCost& block) { return time_of(costs, block); });
  add_memory(costs, strategy, lines);
  return lines;
}

Bounds lower_bounds(Costs& costs, const Strategy& strategy, Bytes limit) {
  Bounds bounds;
  const auto& given = costs.job().layout.stages;
  if (given && std::count(given->begin(), given->end(), 0) > 0) {
    // What follows takes a layer for granted in every stage.
    Strategy cut = strategy;
    cut.stages = *given;
    const Evaluation exact = evaluate(costs, cut);
    return {exact.step_ns, peak(exact)};
  }
  bounds.peak = least_memory(stage_lines(costs, strategy));
  const bool may_fit = limit == Bytes() || bounds.peak <= limit;
  if (may_fit && costs.job().cluster) bounds.step_ns = least_step_ns(costs, strategy);
  return bounds;
}

bool balance_stages(Costs& costs, Strategy& strategy, Bytes limit) {
  const StageLines lines = stage_lines(costs, strategy);
  if (auto cut = best_cut(lines, limit)) {
    strategy.stages = std::move(*cut);
    return true;
  }
  strategy.stages = *best_cut(lines, Bytes());
  return false;
}

}  // namespace mega::planner
