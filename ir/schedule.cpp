#include "ir/schedule.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "ir/base/check.h"

namespace mega {
namespace {

// Edge r joins pipeline rank r to r + 1 (modulo pp); only chunks use the edge that closes the ring.
int colour_of_edge(int pp, int edge) {
  return edge == pp - 1 && pp % 2 == 1 ? 2 : edge % 2;
}

int colours_in_use(const ScheduleShape& shape) {
  if (shape.pp == 1) return 0;
  if (shape.vpp == 1) return shape.pp == 2 ? 1 : 2;  // the ring stays open
  return shape.pp % 2 == 1 ? 3 : 2;
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

// The edge that a transfer of this rank goes over.
int edge_of(int pp, int rank, Work work) {
  const bool is_below = work == Work::ReceiveActivation || work == Work::SendGradient;
  return is_below ? (rank + pp - 1) % pp : rank;
}

int queue_of(const ScheduleShape& shape, int rank, Work work) {
  const int colours = colours_in_use(shape);
  switch (work) {
    case Work::Prologue:
    case Work::Forward:
    case Work::Backward:
    case Work::Update:
      return 0;
    case Work::SendActivation:
    case Work::ReceiveActivation:
      return 1 + colour_of_edge(shape.pp, edge_of(shape.pp, rank, work));
    case Work::SendGradient:
    case Work::ReceiveGradient:
      return 1 + colours + colour_of_edge(shape.pp, edge_of(shape.pp, rank, work));
    case Work::ReduceGradients:
    case Work::ReduceTied:
      return has_reduce_queue(shape) ? 1 + 2 * colours : 0;
    case Work::GatherParameters:
      return 1 + 2 * colours + (has_reduce_queue(shape) ? 1 : 0);
  }
  return 0;
}

std::vector<ComputeStep> interleaved_order(const ScheduleShape& shape, std::int64_t group,
                                           int rank) {
  const std::int64_t m = shape.micro_batches;
  const int v = shape.vpp;
  MEGA_CHECK(group > 0, "interleaving needs at least as many micro-batches as pipeline ranks");
  std::vector<ComputeStep> forward;
  for (std::int64_t first = 0; first < m; first += group) {
    for (int chunk = 0; chunk < v; ++chunk) {
      for (std::int64_t k = first; k < std::min(first + group, m); ++k) {
        forward.push_back({true, chunk, k});
      }
    }
  }
  const auto total = static_cast<std::int64_t>(forward.size());
  const std::int64_t warm_up = std::min(2 * (shape.pp - rank - 1) + (v - 1) * group, total);
  std::vector<ComputeStep> order;
  order.reserve(2 * forward.size());
  for (std::int64_t k = 0; k < total + warm_up; ++k) {
    if (k < total) order.push_back(forward[static_cast<std::size_t>(k)]);
    if (k < warm_up) continue;
    const ComputeStep& mirror = forward[static_cast<std::size_t>(k - warm_up)];
    order.push_back({false, v - 1 - mirror.chunk, mirror.micro_batch});
  }
  return order;
}

std::vector<ComputeStep> order_of(const ScheduleShape& shape, std::int64_t group, int rank) {
  if (shape.vpp > 1) return interleaved_order(shape, group, rank);
  const std::int64_t m = shape.micro_batches;
  const std::int64_t warm_up = std::min<std::int64_t>(shape.pp - rank - 1, m);
  std::vector<ComputeStep> order;
  order.reserve(static_cast<std::size_t>(2 * m));
  for (std::int64_t k = 0; k < m + warm_up; ++k) {
    if (k < m) order.push_back({true, 0, k});
    if (k >= warm_up) order.push_back({false, 0, k - warm_up});
  }
  return order;
}

// What a rank issues, before queues and waits.
struct Issue {
  Work work = Work::Prologue;
  int chunk = -1;
  std::int64_t micro_batch = -1;
};

// Builds the program of one pipeline rank.
class RankBuilder {
 public:
  RankBuilder(const ScheduleShape& shape, std::int64_t group, int rank)
      : shape_(shape), group_(group), rank_(rank) {
    issue_all();
    count_slots();
  }
  const std::vector<int>& slots() const { return slots_; }
  std::vector<ScheduledInstruction> instructions(std::size_t queues);

 private:
  bool has_input(int chunk) const { return chunk > 0 || rank_ > 0; }
  bool has_output(int chunk) const { return chunk < shape_.vpp - 1 || rank_ < shape_.pp - 1; }
  void issue(Work work, int chunk, std::int64_t micro_batch = -1) {
    issues_.push_back({work, chunk, micro_batch});
  }
  void issue_receive(const ComputeStep& step);
  void issue_computation(const ComputeStep& step);
  void issue_all();
  void issue_end();
  void count_slots();
  bool takes_slot(const Issue& issue) const;
  bool frees_slot(const Issue& issue) const;
  std::optional<Issue> predecessor(const Issue& issue) const;

  const ScheduleShape& shape_;
  std::int64_t group_;
  int rank_;
  std::vector<Issue> issues_;
  std::vector<int> slots_;
};

void RankBuilder::issue_receive(const ComputeStep& step) {
  if (step.is_forward && has_input(step.chunk)) {
    issue(Work::ReceiveActivation, step.chunk, step.micro_batch);
  } else if (!step.is_forward && has_output(step.chunk)) {
    issue(Work::ReceiveGradient, step.chunk, step.micro_batch);
  }
}

void RankBuilder::issue_computation(const ComputeStep& step) {
  issue(step.is_forward ? Work::Forward : Work::Backward, step.chunk, step.micro_batch);
  if (step.is_forward && has_output(step.chunk)) {
    issue(Work::SendActivation, step.chunk, step.micro_batch);
  } else if (!step.is_forward && has_input(step.chunk)) {
    issue(Work::SendGradient, step.chunk, step.micro_batch);
  }
}

void RankBuilder::issue_all() {
  const std::vector<ComputeStep> order = order_of(shape_, group_, rank_);
  issue(Work::Prologue, -1);
  for (int chunk = 0; shape_.gathers_parameters && chunk < shape_.vpp; ++chunk) {
    issue(Work::GatherParameters, chunk);
  }
  std::size_t received = 0;  // computations whose receive has been issued
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (received == i) issue_receive(order[received++]);
    if (shape_.overlap_pipeline && i + 1 < order.size()) {
      // A gradient is not asked for before its activation has left.
      const bool is_answer =
          order[i].chunk == order[i + 1].chunk && order[i].micro_batch == order[i + 1].micro_batch;
      if (!is_answer) issue_receive(order[received++]);
    }
    issue_computation(order[i]);
    const bool is_last = !order[i].is_forward && order[i].micro_batch == shape_.micro_batches - 1;
    if (is_last && has_reduce_queue(shape_)) issue(Work::ReduceGradients, order[i].chunk);
  }
  issue_end();
}

void RankBuilder::issue_end() {
  // On the compute queue a reduction is kept until no neighbour waits for this rank any more.
  if (shape_.reduces_gradients && !has_reduce_queue(shape_)) {
    for (int chunk = shape_.vpp - 1; chunk >= 0; --chunk) issue(Work::ReduceGradients, chunk);
  }
  if (shape_.has_tied_copies && shape_.pp > 1) {
    if (rank_ == 0) issue(Work::ReduceTied, 0);
    if (rank_ == shape_.pp - 1) issue(Work::ReduceTied, shape_.vpp - 1);
  }
  issue(Work::Update, -1);
}

bool RankBuilder::takes_slot(const Issue& issue) const {
  if (issue.work == Work::ReceiveActivation) return true;
  return issue.work == Work::Forward && !has_input(issue.chunk);
}

bool RankBuilder::frees_slot(const Issue& issue) const {
  if (issue.work == Work::SendGradient) return true;
  return issue.work == Work::Backward && !has_input(issue.chunk);
}

void RankBuilder::count_slots() {
  struct Lives {
    std::int64_t begun = 0, ended = 0;
  };
  std::vector<Lives> lives(static_cast<std::size_t>(shape_.vpp));
  slots_.assign(lives.size(), 0);
  for (const Issue& issue : issues_) {
    if (issue.micro_batch < 0) continue;
    const auto chunk = static_cast<std::size_t>(issue.chunk);
    Lives& of = lives[chunk];
    if (takes_slot(issue)) {
      MEGA_CHECK(issue.micro_batch == of.begun, "slots are taken out of order");
      ++of.begun;
      slots_[chunk] = std::max(slots_[chunk], static_cast<int>(of.begun - of.ended));
    } else if (frees_slot(issue)) {
      MEGA_CHECK(issue.micro_batch == of.ended, "slots are freed out of order");
      ++of.ended;
    }
  }
}

// The one thing that an instruction waits for. The lives of a slot are a chain, so that whoever
// touches a buffer of the slot comes after all that happened to it before:
//
//   receive x ► forward ► send y ► receive dy ► backward ► send dx ► receive x of the next life
//
// At an end of the model the transfers fall away and the compute queue's order closes the gap.
// That the gradient's receive waits for the activation's send costs no time: the gradient is
// computed from that activation.
std::optional<Issue> RankBuilder::predecessor(const Issue& issue) const {
  const auto same = [&](Work work) { return Issue{work, issue.chunk, issue.micro_batch}; };
  switch (issue.work) {
    case Work::ReceiveActivation: {
      const int slots = slots_[static_cast<std::size_t>(issue.chunk)];
      if (issue.micro_batch < slots) return std::nullopt;
      return Issue{Work::SendGradient, issue.chunk, issue.micro_batch - slots};
    }
    case Work::Forward:
      if (!has_input(issue.chunk)) return std::nullopt;
      return same(Work::ReceiveActivation);
    case Work::SendActivation:
      return same(Work::Forward);
    case Work::ReceiveGradient:
      return same(Work::SendActivation);
    case Work::Backward:
      if (!has_output(issue.chunk)) return std::nullopt;
      return same(Work::ReceiveGradient);
    case Work::SendGradient:
      return same(Work::Backward);
    case Work::ReduceGradients:
      if (!has_reduce_queue(shape_)) return std::nullopt;
      return Issue{Work::Backward, issue.chunk, shape_.micro_batches - 1};
    case Work::GatherParameters:  // both may speak to the same ranks
      return Issue{Work::Prologue, -1, -1};
    case Work::Prologue:
    case Work::ReduceTied:
    case Work::Update:
      return std::nullopt;
  }
  return std::nullopt;
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
        issue.work, queue_of(shape_, rank_, issue.work), issue.chunk, issue.micro_batch, {}};
    const auto wait_for = [&](const Issue& before) {
      const int queue = queue_of(shape_, rank_, before.work);
      const int at = index[place(before)];
      MEGA_CHECK(at >= 0, "an instruction waits for one that comes later");
      instruction.waits.push_back({queue, issued[static_cast<std::size_t>(queue)] - 1 - at});
    };
    if (const std::optional<Issue> before = predecessor(issue)) wait_for(*before);
    // All later uses of the weights come after the first.
    if (shape_.gathers_parameters && issue.work == Work::Forward && issue.micro_batch == 0) {
      wait_for({Work::GatherParameters, issue.chunk, -1});
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

}  // namespace

std::int64_t micro_batch_group(int pp, std::int64_t micro_batches) {
  for (std::int64_t n = pp; n <= micro_batches; ++n) {
    if (micro_batches % n == 0 || micro_batches % n >= pp) return n;
  }
  return 0;
}

std::vector<ComputeStep> compute_order(const ScheduleShape& shape, int rank) {
  return order_of(shape, micro_batch_group(shape.pp, shape.micro_batches), rank);
}

std::string to_string(Work work) {
  constexpr std::array kNames = {
      "prologue",         "gather_parameters",  "forward",       "backward",
      "send_activation",  "receive_activation", "send_gradient", "receive_gradient",
      "reduce_gradients", "reduce_tied",        "update"};
  static_assert(kNames.size() == static_cast<std::size_t>(Work::Update) + 1);
  return kNames[static_cast<std::size_t>(work)];
}

bool is_transfer(Work work) {
  return hop(work) != 0;
}

int hop(Work work) {
  switch (work) {
    case Work::SendActivation:
    case Work::ReceiveGradient:
      return 1;
    case Work::ReceiveActivation:
    case Work::SendGradient:
      return -1;
    case Work::Prologue:
    case Work::GatherParameters:
    case Work::Forward:
    case Work::Backward:
    case Work::ReduceGradients:
    case Work::ReduceTied:
    case Work::Update:
      return 0;
  }
  return 0;
}

Schedule build_schedule(const ScheduleShape& shape) {
  MEGA_CHECK(shape.pp >= 1 && shape.vpp >= 1 && shape.micro_batches >= 1, "an empty schedule");
  MEGA_CHECK(shape.vpp == 1 || shape.pp > 1, "chunks of one rank would send to themselves");
  const std::int64_t group = micro_batch_group(shape.pp, shape.micro_batches);
  Schedule schedule;
  schedule.shape = shape;
  schedule.queues = queue_labels(shape);
  for (int rank = 0; rank < shape.pp; ++rank) {
    RankBuilder builder(shape, group, rank);
    schedule.slots.push_back(builder.slots());
    schedule.ranks.push_back(builder.instructions(schedule.queues.size()));
  }
  return schedule;
}

std::vector<std::vector<int>> slot_counts(const ScheduleShape& shape) {
  ScheduleShape steady = shape;
  std::int64_t group = 0;
  if (shape.vpp == 1) {
    steady.micro_batches = std::min<std::int64_t>(shape.micro_batches, 2 * shape.pp + 2);
  } else {
    // Warm-up takes less than two groups; what follows repeats every group until the rest.
    group = micro_batch_group(shape.pp, shape.micro_batches);
    MEGA_CHECK(group > 0, "interleaving needs at least as many micro-batches as pipeline ranks");
    const std::int64_t groups = shape.micro_batches / group;
    steady.micro_batches -= group * std::max<std::int64_t>(groups - 4, 0);
  }
  std::vector<std::vector<int>> slots;
  for (int rank = 0; rank < shape.pp; ++rank) {
    slots.push_back(RankBuilder(steady, group, rank).slots());
  }
  return slots;
}

std::string print(const Schedule& schedule) {
  std::string text;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    text += "rank " + std::to_string(rank) + " |";
    for (const ScheduledInstruction& instruction : schedule.ranks[rank]) {
      if (instruction.work != Work::Forward && instruction.work != Work::Backward) continue;
      text += instruction.work == Work::Forward ? " F" : " B";
      text += std::to_string(instruction.micro_batch);
      if (schedule.shape.vpp > 1) text += static_cast<char>('a' + instruction.chunk);
    }
    text += '\n';
  }
  return text;
}

}  // namespace mega
