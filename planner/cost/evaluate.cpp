#include "planner/cost/evaluate.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "planner/cost/collective_time.h"
#include "planner/cost/op_time.h"
#include "planner/cost/step_work.h"
#include "planner/lower/assign_memory.h"
#include "planner/lower/sharding.h"

namespace mega::planner {
namespace {

// Everything about one strategy that both its time and its memory come from.
struct Parts {
  const BlockCosts& blocks;
  Mesh mesh, experts;
  ScheduleShape shape;
  std::vector<RankLayout> ranks;
};

Parts take_apart(Costs& costs, const Strategy& strategy) {
  Parts parts{costs.blocks(strategy),
              place(costs.graph(), strategy).mesh,
              expert_mesh(strategy),
              schedule_shape(costs, strategy),
              {}};
  const int states = optimizer_states(costs.job().training.optimizer);
  for (int rank = 0; rank < strategy.pp; ++rank) {
    parts.ranks.push_back(lay_out_rank(parts.blocks.graph, chunks_of_rank(strategy, rank), states));
  }
  return parts;
}

// Over the blocks of a chunk.
std::int64_t sum(const BlockCosts& costs, const BlockRange& blocks,
                 std::int64_t BlockCost::*member) {
  std::int64_t total = 0;
  for (int i = blocks.first; i < blocks.first + blocks.count; ++i) {
    total += costs.kinds[costs.graph.chain[static_cast<std::size_t>(i)]].*member;
  }
  return total;
}

// The segments that run once a step, op by op as lowering writes them.
class StepWork {
 public:
  StepWork(Costs& costs, const Parts& parts)
      : costs_(costs), parts_(parts), last_(static_cast<int>(parts.ranks.size()) - 1) {}

  // Gradients and metrics.
  std::int64_t zeros_ns(int rank) const {
    const std::int64_t gradients =
        layout(rank).buckets.empty() ? 0 : zero_ns(costs_, layout(rank).elements.gradients);
    return gradients + zero_ns(costs_, 2 * metrics());
  }

  // The rank of the head counts the tokens.
  std::int64_t count_ns(int rank) const {
    const ScheduleShape& shape = parts_.shape;
    if (rank != place_of_stage(shape.kind, shape.pp, shape.pp * shape.vpp - 1).rank) return 0;
    std::int64_t ns = costs_.compute_ns(OpKind::CountTokens, "->", {}, {{}});
    const AxisSet batch = parts_.blocks.graph.stream_sharding.axes[1];
    if (!batch.empty()) {
      ns += costs_.collective_ns(OpKind::AllReduce, Bytes(8), parts_.mesh, along(batch));
    }
    return ns;
  }

  std::int64_t reduce_ns(int rank, int chunk) const {
    std::int64_t ns = 0;
    for (const BucketLayout& bucket : layout(rank).buckets) {
      if (bucket.chunk == chunk && !is_reduced_in_update(graph(), bucket.bucket)) {
        ns += reduce_ns(bucket);
      }
    }
    return ns;
  }

  std::int64_t tied_ns() const {
    if (!parts_.shape.has_tied_copies) return 0;
    std::int64_t ns = 0;
    Group ends = along(graph().pipeline);
    ends.only = {0, last_};
    for (const BucketLayout& bucket : layout(0).buckets) {
      if (!bucket.bucket.is_tied) continue;
      const Bytes bytes(4 * share(bucket).state);
      ns += costs_.collective_ns(OpKind::AllReduce, bytes, parts_.mesh, ends);
    }
    return ns;
  }

  // Of the weights of one chunk, at one end of the step or the other.
  std::int64_t gather_ns(int rank, int chunk) const {
    std::int64_t ns = 0;
    for (const BucketLayout& bucket : layout(rank).buckets) {
      if (bucket.chunk != chunk) continue;
      ns += mega::planner::gather_ns(costs_, mesh_of(bucket), graph().zero, bucket.bucket,
                                     bucket.elements);
    }
    return ns;
  }

  // Of the update: gradients that are not reduced beside backward, weights that are not gathered
  // beside forward.
  std::int64_t late_ns(int rank) const {
    std::int64_t ns = 0;
    for (const BucketLayout& bucket : layout(rank).buckets) {
      if (is_reduced_in_update(graph(), bucket.bucket)) ns += reduce_ns(bucket);
    }
    const int chunks = static_cast<int>(layout(rank).chunks.size());
    for (int c = 0; c < chunks && !parts_.shape.gathers_parameters; ++c) ns += gather_ns(rank, c);
    return ns;
  }

  // What is late, norm of the gradients, metrics summed over the world, optimizer.
  std::int64_t update_ns(int rank) const {
    std::int64_t ns = late_ns(rank);
    for (const BucketLayout& bucket : layout(rank).buckets) {
      if (bucket.bucket.is_shifted) continue;
      const bool is_second_copy = bucket.bucket.is_tied && !holds_first_block(layout(rank));
      const std::int64_t part = share(bucket).state;
      if (!is_second_copy) ns += norm_ns(costs_, part);
      ns += optimizer_ns(costs_, part);
    }
    for (const ChunkLayout& chunk : layout(rank).chunks) {
      ns += sum(parts_.blocks, chunk.blocks, &BlockCost::shift_ns);
    }
    ns += metrics_ns(costs_, parts_.mesh, metrics());
    return ns;
  }

 private:
  std::int64_t metrics() const { return metrics_count(graph()); }
  const PartitionedGraph& graph() const { return parts_.blocks.graph; }
  const Mesh& mesh_of(const BucketLayout& bucket) const {
    return bucket.bucket.mesh == 0 ? parts_.mesh : parts_.experts;
  }
  BucketShare share(const BucketLayout& bucket) const {
    return share_of(graph().zero, bucket.bucket, bucket.elements);
  }
  std::int64_t reduce_ns(const BucketLayout& bucket) const {
    return mega::planner::reduce_ns(costs_, mesh_of(bucket), graph().zero, bucket.bucket,
                                    bucket.elements);
  }
  const RankLayout& layout(int rank) const { return parts_.ranks[static_cast<std::size_t>(rank)]; }

  Costs& costs_;
  const Parts& parts_;
  int last_;
};

// Of the edges of the ring of pipeline ranks.
std::vector<std::int64_t> transfers_ns(const Costs& costs, const PartitionedGraph& graph,
                                       const Mesh& mesh) {
  const int pp = extent(mesh, graph.pipeline);
  std::vector<std::int64_t> all(static_cast<std::size_t>(pp), 0);
  if (!costs.job().cluster || pp == 1) return all;
  const ClusterSpec& cluster = *costs.job().cluster;
  const Bytes bytes = bytes_of(DType::Fp32, graph.stream_shape);
  for (int edge = 0; edge < pp; ++edge) {
    const int from = rank_at(mesh, 0, graph.pipeline, edge);
    const int to = rank_at(mesh, 0, graph.pipeline, (edge + 1) % pp);
    const Tier tier = tier_between(from, to, cluster.gpus_per_node);
    all[static_cast<std::size_t>(edge)] = to_ns(message_time(cluster, bytes, tier));
  }
  return all;
}

Durations durations(Costs& costs, const Parts& parts) {
  const StepWork work(costs, parts);
  Durations result;
  for (std::size_t r = 0; r < parts.ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    auto& forward = result.forward_ns.emplace_back();
    auto& backward = result.backward_ns.emplace_back();
    auto& weight = result.weight_ns.emplace_back();
    auto& reduce = result.reduce_ns.emplace_back();
    auto& gather = result.gather_ns.emplace_back();
    for (const ChunkLayout& chunk : parts.ranks[r].chunks) {
      forward.push_back(sum(parts.blocks, chunk.blocks, &BlockCost::forward_ns));
      backward.push_back(sum(parts.blocks, chunk.blocks, &BlockCost::backward_ns));
      weight.push_back(sum(parts.blocks, chunk.blocks, &BlockCost::weight_ns));
      reduce.push_back(work.reduce_ns(rank, static_cast<int>(reduce.size())));
      gather.push_back(work.gather_ns(rank, static_cast<int>(gather.size())));
    }
    result.prologue_ns.push_back(work.zeros_ns(rank) + work.count_ns(rank));
    result.update_ns.push_back(work.update_ns(rank));
  }
  result.tied_ns = work.tied_ns();
  result.transfer_ns = transfers_ns(costs, parts.blocks.graph, parts.mesh);
  return result;
}

// Time on the compute queue of one rank, by what it is for.
TimeTerms terms_of(Costs& costs, const Parts& parts, const Durations& durations, std::size_t rank) {
  TimeTerms terms;
  const std::int64_t m = parts.shape.micro_batches;
  for (std::size_t c = 0; c < parts.ranks[rank].chunks.size(); ++c) {
    const BlockRange& blocks = parts.ranks[rank].chunks[c].blocks;
    std::int64_t others = 0;
    const auto take = [&](std::int64_t TimeTerms::*term, std::int64_t BlockCost::*member) {
      const std::int64_t ns = m * sum(parts.blocks, blocks, member);
      terms.*term += ns;
      others += ns;
    };
    take(&TimeTerms::exposed_tp_ns, &BlockCost::tensor_ns);
    take(&TimeTerms::exposed_cp_ns, &BlockCost::context_ns);
    take(&TimeTerms::exposed_ep_ns, &BlockCost::expert_ns);
    take(&TimeTerms::exposed_dp_ns, &BlockCost::data_ns);
    take(&TimeTerms::recompute_ns, &BlockCost::recompute_ns);
    terms.compute_ns += m * (durations.forward_ns[rank][c] + durations.backward_ns[rank][c] +
                             durations.weight_ns[rank][c]) -
                        others;
    if (!parts.shape.overlap_gradient_reduce) terms.exposed_dp_ns += durations.reduce_ns[rank][c];
  }
  const bool is_end = rank == 0 || rank + 1 == parts.ranks.size();
  if (is_end && !parts.shape.overlap_gradient_reduce) terms.exposed_dp_ns += durations.tied_ns;
  const StepWork work(costs, parts);
  const std::int64_t late = work.late_ns(static_cast<int>(rank));
  terms.exposed_dp_ns += late;
  terms.other_ns = work.count_ns(static_cast<int>(rank));
  terms.optimizer_ns =
      durations.update_ns[rank] - late + durations.prologue_ns[rank] - terms.other_ns;
  return terms;
}

void add_time(Costs& costs, const Parts& parts, Evaluation& evaluation) {
  const Durations all = durations(costs, parts);
  const Timeline timeline = costs.simulator(parts.shape).run(all);
  std::size_t rank = 0;
  for (std::size_t r = 0; r < parts.ranks.size(); ++r) {
    const TimeTerms terms = terms_of(costs, parts, all, r);
    if (r > 0 && terms.compute_ns <= evaluation.time.compute_ns) continue;
    evaluation.time = terms;
    rank = r;
  }
  evaluation.step_ns = timeline.step_ns;
  evaluation.time.exposed_pp_ns += timeline.ranks[rank].exposed_pp_ns;
  evaluation.time.exposed_dp_ns += timeline.ranks[rank].exposed_dp_ns;
  evaluation.time.bubble_ns = timeline.ranks[rank].bubble_ns;
}

void add_memory(Costs& costs, const Parts& parts, Evaluation& evaluation) {
  const auto& slots = costs.slots(parts.shape);
  int in_flight = 0;
  Bytes most;
  for (std::size_t r = 0; r < parts.ranks.size(); ++r) {
    const int stage = static_cast<int>(r);
    evaluation.memory.push_back(stage_memory(parts.ranks[r], slots[r], stage));
    if (r > 0 && evaluation.memory.back().total <= most) continue;
    most = evaluation.memory.back().total;
    evaluation.peak_stage = stage;
    in_flight = 0;
    for (const int count : slots[r]) in_flight += count;
  }
  evaluation.peak_at = "stage " + std::to_string(evaluation.peak_stage) + ", " +
                       std::to_string(in_flight) +
                       (parts.shape.vpp > 1 ? " chunks" : " micro-batches") + " in flight";
}

}  // namespace

std::vector<std::int64_t> transfers_ns(Costs& costs, const Strategy& strategy) {
  return transfers_ns(costs, costs.blocks(strategy).graph, place(costs.graph(), strategy).mesh);
}

Durations durations(Costs& costs, const Strategy& strategy) {
  return durations(costs, take_apart(costs, strategy));
}

Evaluation evaluate(Costs& costs, const Strategy& strategy) {
  const Parts parts = take_apart(costs, strategy);
  Evaluation evaluation;
  if (costs.job().cluster) add_time(costs, parts, evaluation);
  add_memory(costs, parts, evaluation);
  return evaluation;
}

}  // namespace mega::planner
