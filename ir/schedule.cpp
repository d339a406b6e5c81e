#include "ir/schedule.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "ir/base/check.h"

namespace mega {
namespace {

// Of one chunk; a V has as many again for the other.
int colours_of_open_ring(int pp) {
  return pp == 2 ? 1 : 2;
}

int colours_in_use(const ScheduleShape& shape) {
  if (shape.pp == 1) return 0;
  if (is_folded(shape.kind)) return 2 * colours_of_open_ring(shape.pp);
  if (shape.vpp == 1) return colours_of_open_ring(shape.pp);
  return shape.pp % 2 == 1 ? 3 : 2;
}

int colour_of(const ScheduleShape& shape, int edge, int chunk) {
  if (is_folded(shape.kind)) return chunk * colours_of_open_ring(shape.pp) + edge % 2;
  return edge == shape.pp - 1 && shape.pp % 2 == 1 ? 2 : edge % 2;  // the edge that closes the ring
}

bool has_reduce_queue(const ScheduleShape& shape) {
  return shape.overlap_gradient_reduce && shape.reduces_gradients;
}

std::vector<std::string> queue_labels(const ScheduleShape& shape) {
  std::vector<std::string> labels = {"compute"};
  const int colours = colours_in_use(shape);
  for (int c = 0; c < colours; ++c) labels.push_back("forward_" + std::to_string(c));
  for (int c = 0; c < colours; ++c) labels.push_back("backward_" + std::to_string(c));
  if (has_reduce_queue(shape)) labels.emplace_back("reduce");
  if (shape.gathers_parameters) labels.emplace_back("gather");
  return labels;
}

Work work_of(Pass pass) {
  switch (pass) {
    case Pass::Forward:
      return Work::Forward;
    case Pass::Backward:
      return Work::Backward;
    case Pass::WeightGradient:
      return Work::WeightGradient;
  }
  MEGA_CHECK(false, "a pass that is no work");
}

// What a rank issues, before queues and waits.
struct Issue {
  Work work = Work::Prologue;
  int chunk = -1;
  std::int64_t micro_batch = -1;
};

bool is_compute(Work work) {
  return work == Work::Forward || work == Work::Backward || work == Work::WeightGradient;
}

int queue_of(const ScheduleShape& shape, int rank, const Issue& issue) {
  const int colours = colours_in_use(shape);
  const auto colour = [&] {
    return colour_of(shape, edge_of(shape, rank, issue.chunk, issue.work), issue.chunk);
  };
  switch (issue.work) {
    case Work::Prologue:
    case Work::Forward:
    case Work::Backward:
    case Work::WeightGradient:
    case Work::Update:
      return 0;
    case Work::SendActivation:
    case Work::ReceiveActivation:
      return 1 + colour();
    case Work::SendGradient:
    case Work::ReceiveGradient:
      return 1 + colours + colour();
    case Work::ReduceGradients:
    case Work::ReduceTied:
      return has_reduce_queue(shape) ? 1 + 2 * colours : 0;
    case Work::GatherParameters:
      return 1 + 2 * colours + (has_reduce_queue(shape) ? 1 : 0);
  }
  return 0;
}

// Builds the program of one pipeline rank.
class RankBuilder {
 public:
  RankBuilder(const ScheduleShape& shape, int rank, std::int64_t group = 0)
      : shape_(shape), rank_(rank) {
    issue_all(compute_order(shape, rank, group));
    count_slots();
  }
  const std::vector<int>& slots() const { return slots_; }
  std::vector<ScheduledInstruction> instructions(std::size_t queues);

 private:
  // Whether a stage is on another rank: its stream comes or goes by a transfer.
  bool is_elsewhere(int stage) const {
    return place_of_stage(shape_.kind, shape_.pp, stage).rank != rank_;
  }
  bool has_input(int chunk) const {
    const int stage = stage_of(shape_.kind, shape_.pp, {rank_, chunk});
    return stage > 0 && is_elsewhere(stage - 1);
  }
  bool has_output(int chunk) const {
    const int stage = stage_of(shape_.kind, shape_.pp, {rank_, chunk});
    return stage + 1 < shape_.pp * shape_.vpp && is_elsewhere(stage + 1);
  }
  void issue(Work work, int chunk, std::int64_t micro_batch = -1) {
    issues_.push_back({work, chunk, micro_batch});
  }
  void issue_receive(const ComputeStep& step);
  void issue_computation(const ComputeStep& step);
  void issue_all(const std::vector<ComputeStep>& order);
  void issue_finished_reductions(const ComputeStep& step);
  void issue_end();
  void count_slots();
  std::size_t owner_index(const Issue& issue) const {
    return static_cast<std::size_t>(slot_owner(shape_.kind, shape_.pp, {rank_, issue.chunk}));
  }
  std::vector<Issue> predecessors(const Issue& issue) const;

  const ScheduleShape& shape_;
  int rank_;
  std::vector<Issue> issues_;
  std::vector<int> slots_;                            // per slot owner
  std::vector<std::vector<Issue>> last_computation_;  // per slot owner and micro-batch
  std::vector<bool> is_reduced_;                      // per chunk: its reduction is issued
  std::vector<std::int64_t> gradients_done_;          // per chunk: micro-batches
};

void RankBuilder::issue_receive(const ComputeStep& step) {
  if (step.pass == Pass::Forward && has_input(step.chunk)) {
    issue(Work::ReceiveActivation, step.chunk, step.micro_batch);
  } else if (step.pass == Pass::Backward && has_output(step.chunk)) {
    issue(Work::ReceiveGradient, step.chunk, step.micro_batch);
  }
}

void RankBuilder::issue_computation(const ComputeStep& step) {
  issue(work_of(step.pass), step.chunk, step.micro_batch);
  if (step.pass == Pass::Forward && has_output(step.chunk)) {
    issue(Work::SendActivation, step.chunk, step.micro_batch);
  } else if (step.pass == Pass::Backward && has_input(step.chunk)) {
    issue(Work::SendGradient, step.chunk, step.micro_batch);
  }
}

void RankBuilder::issue_all(const std::vector<ComputeStep>& order) {
  is_reduced_.assign(static_cast<std::size_t>(shape_.vpp), false);
  gradients_done_.assign(static_cast<std::size_t>(shape_.vpp), 0);
  issue(Work::Prologue, -1);
  for (int chunk = 0; shape_.gathers_parameters && chunk < shape_.vpp; ++chunk) {
    issue(Work::GatherParameters, chunk);
  }
  std::size_t received = 0;  // computations whose receive has been issued
  const auto receive_to = [&](std::size_t end) {
    while (received < end) issue_receive(order[received++]);
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    receive_to(i + 1);
    std::size_t next = i + 1;  // that may have something to receive
    while (next < order.size() && order[next].pass == Pass::WeightGradient) ++next;
    if (shape_.overlap_pipeline && next < order.size()) {
      // A gradient is not asked for before its activation has left.
      const bool is_answer =
          order[i].chunk == order[next].chunk && order[i].micro_batch == order[next].micro_batch;
      if (!is_answer) receive_to(next + 1);
    }
    issue_computation(order[i]);
    if (has_reduce_queue(shape_)) issue_finished_reductions(order[i]);
  }
  issue_end();
}

// A chunk's gradients are reduced when its last micro-batch is done. In a V the first chunk waits
// for the other, too: on the first rank a tied tensor takes gradients from both.
void RankBuilder::issue_finished_reductions(const ComputeStep& step) {
  const Pass last = splits_backward(shape_.kind) ? Pass::WeightGradient : Pass::Backward;
  if (step.pass != last) return;
  ++gradients_done_[static_cast<std::size_t>(step.chunk)];
  for (int chunk = shape_.vpp - 1; chunk >= 0; --chunk) {
    const auto c = static_cast<std::size_t>(chunk);
    const bool waits = is_folded(shape_.kind) && chunk == 0 && !is_reduced_[1];
    if (is_reduced_[c] || waits || gradients_done_[c] < shape_.micro_batches) continue;
    issue(Work::ReduceGradients, chunk);
    is_reduced_[c] = true;
  }
}

void RankBuilder::issue_end() {
  // On the compute queue a reduction is kept until no neighbour waits for this rank any more.
  if (shape_.reduces_gradients && !has_reduce_queue(shape_)) {
    for (int chunk = shape_.vpp - 1; chunk >= 0; --chunk) issue(Work::ReduceGradients, chunk);
  }
  if (shape_.has_tied_copies && shape_.pp > 1) {
    MEGA_CHECK(!is_folded(shape_.kind), "both ends of a V are on one rank: one copy");
    if (rank_ == 0) issue(Work::ReduceTied, 0);
    if (rank_ == shape_.pp - 1) issue(Work::ReduceTied, shape_.vpp - 1);
  }
  issue(Work::Update, -1);
}

// A slot is taken by the first that touches it for a micro-batch and free after the last. Micro-
// batch k + n must not begin before k has ended.
void RankBuilder::count_slots() {
  const int last_owner = slot_owner(shape_.kind, shape_.pp, {rank_, shape_.vpp - 1});
  const auto owners = static_cast<std::size_t>(last_owner + 1);
  const auto m = static_cast<std::size_t>(shape_.micro_batches);
  std::vector<std::vector<std::size_t>> last(owners, std::vector<std::size_t>(m, 0));
  last_computation_.assign(owners, std::vector<Issue>(m));
  for (std::size_t i = 0; i < issues_.size(); ++i) {
    if (issues_[i].micro_batch < 0) continue;
    const auto k = static_cast<std::size_t>(issues_[i].micro_batch);
    last[owner_index(issues_[i])][k] = i;
    if (is_compute(issues_[i].work)) last_computation_[owner_index(issues_[i])][k] = issues_[i];
  }
  slots_.assign(owners, 0);
  std::vector<std::int64_t> begun(owners, 0);
  for (std::size_t i = 0; i < issues_.size(); ++i) {
    const std::int64_t k = issues_[i].micro_batch;
    if (k < 0) continue;
    const std::size_t owner = owner_index(issues_[i]);
    MEGA_CHECK(k <= begun[owner], "slots are taken out of order");
    if (k == begun[owner]) ++begun[owner];
    if (last[owner][static_cast<std::size_t>(k)] == i) {
      slots_[owner] = std::max(slots_[owner], static_cast<int>(begun[owner] - k));
    }
  }
}

// What an instruction waits for. The lives of a slot are a chain, so that whoever touches a buffer
// of the slot comes after all that happened to it before:
//
//   receive x ► forward ► send y ► receive dy ► backward ► send dx ► receive x of the next life
//                                                  └► weight gradient ────┘
//
// At an end of the model the transfers fall away and the compute queue's order closes the gap; at
// the bottom of a V it stands for those between the two chunks.
// That the gradient's receive waits for the activation's send costs no time: the gradient is
// computed from that activation.
std::vector<Issue> RankBuilder::predecessors(const Issue& issue) const {
  const auto same = [&](Work work) { return Issue{work, issue.chunk, issue.micro_batch}; };
  switch (issue.work) {
    case Work::ReceiveActivation: {
      const std::size_t owner = owner_index(issue);
      const std::int64_t before = issue.micro_batch - slots_[owner];
      if (before < 0) return {};
      std::vector<Issue> all = {{Work::SendGradient, issue.chunk, before}};
      if (splits_backward(shape_.kind)) {
        all.push_back(last_computation_[owner][static_cast<std::size_t>(before)]);
      }
      return all;
    }
    case Work::Forward: {
      std::vector<Issue> all;
      if (has_input(issue.chunk)) all.push_back(same(Work::ReceiveActivation));
      // All later uses of the weights come after the first.
      if (shape_.gathers_parameters && issue.micro_batch == 0) {
        all.push_back({Work::GatherParameters, issue.chunk, -1});
      }
      return all;
    }
    case Work::SendActivation:
      return {same(Work::Forward)};
    case Work::ReceiveGradient:
      return {same(Work::SendActivation)};
    case Work::Backward:
      if (!has_output(issue.chunk)) return {};
      return {same(Work::ReceiveGradient)};
    case Work::SendGradient:
      return {same(Work::Backward)};
    case Work::GatherParameters:  // both may speak to the same ranks
      return {{Work::Prologue, -1, -1}};
    case Work::Prologue:
    case Work::WeightGradient:
    case Work::ReduceGradients:
    case Work::ReduceTied:
    case Work::Update:
      return {};
  }
  return {};
}

std::vector<ScheduledInstruction> RankBuilder::instructions(std::size_t queues) {
  constexpr std::size_t kWorks = static_cast<std::size_t>(Work::Update) + 1;
  // Where on its queue each piece of work of a chunk and micro-batch is.
  const auto place = [&](const Issue& issue) {
    const std::int64_t k = std::max<std::int64_t>(issue.micro_batch, 0);
    const std::int64_t chunk = std::max(issue.chunk, 0);
    return static_cast<std::size_t>(issue.work) +
           kWorks * static_cast<std::size_t>(chunk * shape_.micro_batches + k);
  };
  std::vector<int> index(kWorks * static_cast<std::size_t>(shape_.vpp * shape_.micro_batches), -1);
  std::vector<int> issued(queues, 0);
  std::vector<bool> ends_in_flight(queues, false);  // no computation waits for its last
  std::vector<ScheduledInstruction> result;
  result.reserve(issues_.size());
  for (const Issue& issue : issues_) {
    ScheduledInstruction instruction{
        issue.work, queue_of(shape_, rank_, issue), issue.chunk, issue.micro_batch, {}};
    for (const Issue& before : predecessors(issue)) {
      const int queue = queue_of(shape_, rank_, before);
      const int at = index[place(before)];
      MEGA_CHECK(at >= 0, "an instruction waits for one that comes later");
      // GPipe's gradients come after all activations have left, and one wait for all of them is
      // the same in every turn.
      const bool waits_for_all =
          shape_.kind == ScheduleKind::Gpipe && issue.work == Work::ReceiveGradient;
      const int behind = issued[static_cast<std::size_t>(queue)] - 1 - at;
      instruction.waits.push_back({queue, waits_for_all ? 0 : behind});
    }
    if (issue.work == Work::ReduceGradients && has_reduce_queue(shape_)) {
      instruction.waits.push_back({0, 0});  // it is issued right after what it waits for
    }
    if (issue.work == Work::Update) {  // the step ends with nothing in flight
      for (std::size_t q = 1; q < queues; ++q) {
        if (ends_in_flight[q]) instruction.waits.push_back({static_cast<int>(q), 0});
      }
    }
    const auto queue = static_cast<std::size_t>(instruction.queue);
    index[place(issue)] = issued[queue]++;
    ends_in_flight[queue] = issue.work == Work::SendGradient ||
                            issue.work == Work::ReduceGradients || issue.work == Work::ReduceTied;
    result.push_back(std::move(instruction));
  }
  return result;
}

// As many micro-batches as show every number of slots that all of them would take; `group` is
// that of the interleaved schedule. 0 where a formula does it.
ScheduleShape steady_part(const ScheduleShape& shape, std::int64_t& group) {
  ScheduleShape steady = shape;
  if (shape.kind == ScheduleKind::OneFOneB && shape.vpp > 1) {
    // Warm-up takes less than two groups; what follows repeats every group until the rest.
    group = micro_batch_group(shape.pp, shape.micro_batches);
    MEGA_CHECK(group > 0, "interleaving needs at least as many micro-batches as pipeline ranks");
    const std::int64_t groups = shape.micro_batches / group;
    steady.micro_batches -= group * std::max<std::int64_t>(groups - 4, 0);
    return steady;
  }
  // 1F1B shows them after two a rank, the V kinds, which begin with twice as many, after four.
  const std::int64_t enough = 4 * std::int64_t{shape.pp} + 2;
  steady.micro_batches = std::min(shape.micro_batches, enough);
  return steady;
}

}  // namespace

Schedule build_schedule(const ScheduleShape& shape) {
  MEGA_CHECK(shape.pp >= 1 && shape.vpp >= 1 && shape.micro_batches >= 1, "an empty schedule");
  MEGA_CHECK(shape.vpp == 1 || shape.pp > 1, "chunks of one rank would send to themselves");
  Schedule schedule;
  schedule.shape = shape;
  schedule.queues = queue_labels(shape);
  for (int rank = 0; rank < shape.pp; ++rank) {
    RankBuilder builder(shape, rank);
    schedule.slots.push_back(builder.slots());
    schedule.ranks.push_back(builder.instructions(schedule.queues.size()));
  }
  return schedule;
}

std::vector<std::vector<int>> slot_counts(const ScheduleShape& shape) {
  if (shape.kind == ScheduleKind::Gpipe) {  // all forwards come first
    return {static_cast<std::size_t>(shape.pp), {static_cast<int>(shape.micro_batches)}};
  }
  std::int64_t group = 0;
  const ScheduleShape steady = steady_part(shape, group);
  std::vector<std::vector<int>> slots;
  for (int rank = 0; rank < shape.pp; ++rank) {
    slots.push_back(RankBuilder(steady, rank, group).slots());
  }
  return slots;
}

}  // namespace mega
