#include "planner/lower/split_backward.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

namespace mega::planner {
namespace {

bool touches(const std::vector<TensorId>& ids, TensorId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

class Splitter {
 public:
  explicit Splitter(PartitionedBlock& block) : block_(block), late_(block.backward.size(), false) {
    for (const LocalParameter& parameter : block.parameters) gradients_.insert(parameter.gradient);
  }

  void run() {
    // From the end: whether something needs an op's results is known before the op's turn.
    for (std::size_t i = late_.size(); i-- > 0;) late_[i] = may_be_late(i);
    std::vector<LocalOp> now;
    for (std::size_t i = 0; i < late_.size(); ++i) {
      (late_[i] ? block_.weight_gradient : now).push_back(std::move(block_.backward[i]));
    }
    block_.backward = std::move(now);
  }

 private:
  bool may_be_late(std::size_t i) const {
    const LocalOp& op = block_.backward[i];
    const bool is_unneeded = std::all_of(op.outputs.begin(), op.outputs.end(), [&](TensorId id) {
      return gradients_.contains(id) || (!leaves_block(id) && !is_used_after(i, id));
    });
    return is_unneeded && std::none_of(op.inputs.begin(), op.inputs.end(),
                                       [&](TensorId id) { return changes_after(i, id); });
  }

  // Read or added to by an op that is not late.
  bool is_used_after(std::size_t i, TensorId id) const {
    for (std::size_t j = i + 1; j < late_.size(); ++j) {
      const LocalOp& op = block_.backward[j];
      if (!late_[j] && (touches(op.inputs, id) || touches(op.outputs, id))) return true;
    }
    return false;
  }

  bool changes_after(std::size_t i, TensorId id) const {
    const bool is_stream = id == block_.output_gradient || id == block_.input_gradient;
    if (is_stream && block_.input) return true;  // the blocks before add to it
    for (std::size_t j = i + 1; j < late_.size(); ++j) {
      if (!late_[j] && touches(block_.backward[j].outputs, id)) return true;
    }
    return false;
  }

  bool leaves_block(TensorId id) const {
    return id == block_.input_gradient || id == block_.output_gradient ||
           block_.tensors[id].letters.empty();
  }

  PartitionedBlock& block_;
  std::vector<bool> late_;  // per op of backward
  std::set<TensorId> gradients_;
};

}  // namespace

void split_backward(PartitionedBlock& block) {
  Splitter(block).run();
}

}  // namespace mega::planner
