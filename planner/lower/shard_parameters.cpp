#include "planner/lower/shard_parameters.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace mega::planner {
namespace {

class BucketSharder {
 public:
  BucketSharder(PartitionedBlock& block, int number, const BucketClass& bucket)
      : block_(block),
        name_("bucket" + std::to_string(number)),
        bucket_(bucket),
        elements_(bucket_elements(block, bucket)) {
    sharded_.bucket = bucket;
  }

  void shard_gradients() {
    sharded_.gradients = add(name_ + ".gradients", elements_);
    sharded_.gradient_shard = add_shard(name_ + ".gradients.sum", Home::GradientShard);
    const TensorId own = add(name_ + ".gradients.own", elements_ / bucket_.parts);
    block_.tensors[own].home = Home::View;
    block_.tensors[own].parent = sharded_.gradients;
    block_.tensors[own].own_part_of = bucket_.scatter;
    put_views(sharded_.gradients, &LocalParameter::gradient);

    LocalOp zero;
    zero.kind = OpKind::Fill;
    zero.index = "->n";
    zero.outputs = {sharded_.gradients};
    block_.backward.insert(block_.backward.begin(), zero);
    LocalOp reduce = collective(OpKind::ReduceScatter, "n->m", sharded_.gradients, own);
    reduce.attributes.combine = Combine::Sum;
    block_.backward.push_back(reduce);
    LocalOp add;
    add.kind = OpKind::Add;
    add.index = "n,n->n";
    add.inputs = {sharded_.gradient_shard, own};
    add.outputs = {sharded_.gradient_shard};
    block_.backward.push_back(add);
  }

  void shard_weights() {
    sharded_.weight_shard = add_shard(name_ + ".weights.own", Home::WeightShard);
    sharded_.weights = add(name_ + ".weights", elements_);
    put_views(sharded_.weights, &LocalParameter::weight);
    block_.forward.insert(
        block_.forward.begin(),
        collective(OpKind::AllGather, "m->n", sharded_.weight_shard, sharded_.weights));
    // Another tensor in backward: one that lives from forward to backward would be saved.
    const TensorId again = add(name_ + ".weights.again", elements_);
    std::map<TensorId, TensorId> views;
    for (const LocalParameter& parameter : block_.parameters) {
      if (parameter.bucket != bucket_) continue;
      LocalTensor view = block_.tensors[parameter.weight];
      view.name += ".again";
      view.parent = again;
      views[parameter.weight] = block_.tensors.add(std::move(view));
    }
    bool is_used = false;
    for (LocalOp& op : block_.backward) {
      for (TensorId& input : op.inputs) {
        const auto found = views.find(input);
        if (found == views.end()) continue;
        input = found->second;
        is_used = true;
      }
    }
    if (!is_used) return;
    block_.backward.insert(block_.backward.begin(),
                           collective(OpKind::AllGather, "m->n", sharded_.weight_shard, again));
  }

  ShardedBucket take() { return sharded_; }

 private:
  TensorId add(std::string name, std::int64_t elements) {
    LocalTensor tensor;
    tensor.name = std::move(name);
    tensor.letters = "n";
    tensor.shape = {elements};
    tensor.sharding.axes = {{}};
    tensor.sharding.mesh = bucket_.mesh;
    return block_.tensors.add(std::move(tensor));
  }

  TensorId add_shard(std::string name, Home home) {
    const TensorId id = add(std::move(name), elements_ / bucket_.parts);
    block_.tensors[id].home = home;
    block_.tensors[id].sharding.axes = {bucket_.scatter};
    return id;
  }

  void put_views(TensorId whole, TensorId LocalParameter::*member) {
    std::int64_t element = 0;
    for (const LocalParameter& parameter : block_.parameters) {
      if (parameter.bucket != bucket_) continue;
      LocalTensor& tensor = block_.tensors[parameter.*member];
      tensor.home = Home::View;
      tensor.parent = whole;
      tensor.offset = Bytes(size_of(tensor.dtype) * element);
      element += round_up(element_count(tensor.shape), kBucketAlignmentElements);
    }
  }

  LocalOp collective(OpKind kind, std::string index, TensorId in, TensorId out) const {
    LocalOp op;
    op.kind = kind;
    op.index = std::move(index);
    op.inputs = {in};
    op.outputs = {out};
    op.group = Group{.mesh = bucket_.mesh, .along = bucket_.scatter, .only = {}};
    return op;
  }

  PartitionedBlock& block_;
  std::string name_;
  BucketClass bucket_;
  std::int64_t elements_;
  ShardedBucket sharded_;
};

}  // namespace

bool splits_gradients(int zero, const BucketClass& bucket) {
  return zero >= 2 && bucket.parts > 1;
}

bool splits_weights(int zero, const BucketClass& bucket) {
  return zero >= 3 && bucket.parts > 1;
}

void shard_parameters(PartitionedBlock& block, int zero) {
  int number = 0;
  for (const BucketClass& bucket : bucket_classes(block)) {
    BucketSharder sharder(block, number++, bucket);
    if (!splits_gradients(zero, bucket)) continue;
    sharder.shard_gradients();
    if (splits_weights(zero, bucket)) sharder.shard_weights();
    block.sharded.push_back(sharder.take());
  }
}

}  // namespace mega::planner
