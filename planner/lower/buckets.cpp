#include "planner/lower/buckets.h"

#include "planner/lower/shard_parameters.h"

namespace mega::planner {

BucketShare share_of(int zero, const BucketClass& bucket, std::int64_t elements) {
  const std::int64_t part = elements / bucket.parts;
  return {splits_weights(zero, bucket) ? part : elements,
          splits_gradients(zero, bucket) ? part : elements, part};
}

std::vector<BucketCollective> reductions_of(int zero, const BucketClass& bucket,
                                            std::int64_t elements) {
  std::vector<BucketCollective> all;
  AxisSet rest = bucket.reduce;
  if (bucket.parts > 1) {
    rest = rest - bucket.scatter;
    if (!splits_gradients(zero, bucket)) {
      all.push_back({OpKind::ReduceScatter, bucket.scatter, elements});
    }
  }
  if (!rest.empty()) all.push_back({OpKind::AllReduce, rest, elements / bucket.parts});
  return all;
}

std::vector<BucketCollective> gathers_of(int zero, const BucketClass& bucket,
                                         std::int64_t elements) {
  if (bucket.parts == 1 || splits_weights(zero, bucket)) return {};
  return {{OpKind::AllGather, bucket.scatter, elements}};
}

bool is_reduced_in_update(const PartitionedGraph& graph, const BucketClass& bucket) {
  if (bucket.mesh != 0) return false;                  // then nothing is reduced beside backward
  const AxisSet data = graph.stream_sharding.axes[1];  // those that split the micro-batch
  AxisSet all;
  for (const BucketCollective& each : reductions_of(graph.zero, bucket, 0)) {
    all = all | each.along;
  }
  return !data.contains(all);
}

}  // namespace mega::planner
