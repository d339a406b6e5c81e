#include "ir/schedule_order.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>

#include "ir/base/check.h"

namespace mega {
namespace {

// Writes the steps of one rank; each pass of a chunk takes the micro-batches in turn.
class Order {
 public:
  explicit Order(int chunks) : next_(static_cast<std::size_t>(chunks)) {}

  void forward(int chunk) { add(Pass::Forward, chunk); }
  void backward(int chunk) { add(Pass::Backward, chunk); }
  void weight(int chunk) { add(Pass::WeightGradient, chunk); }
  void full_backward(int chunk) {
    backward(chunk);
    weight(chunk);
  }
  std::int64_t done(Pass pass, int chunk) const { return count(pass, chunk); }
  std::vector<ComputeStep> take() { return std::move(steps_); }

 private:
  std::int64_t count(Pass pass, int chunk) const {
    return next_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(pass)];
  }
  void add(Pass pass, int chunk) {
    steps_.push_back({pass, chunk, count(pass, chunk)});
    ++next_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(pass)];
  }
  std::vector<std::array<std::int64_t, 3>> next_;
  std::vector<ComputeStep> steps_;
};

void repeat(std::int64_t times, const auto& body) {
  for (std::int64_t i = 0; i < times; ++i) body();
}

std::vector<ComputeStep> gpipe(const ScheduleShape& shape) {
  Order order(1);
  repeat(shape.micro_batches, [&] { order.forward(0); });
  repeat(shape.micro_batches, [&] { order.backward(0); });
  return order.take();
}

std::vector<ComputeStep> one_f_one_b(const ScheduleShape& shape, int rank) {
  const std::int64_t m = shape.micro_batches;
  const std::int64_t warm_up = std::min<std::int64_t>(shape.pp - rank - 1, m);
  Order order(1);
  for (std::int64_t k = 0; k < m + warm_up; ++k) {
    if (k < m) order.forward(0);
    if (k >= warm_up) order.backward(0);
  }
  return order.take();
}

// 1F1B, where rank r runs each weight gradient r backwards late: what the ranks below wait for
// comes a pass earlier, and the cool-down's gaps are filled.
std::vector<ComputeStep> zb_h1(const ScheduleShape& shape, int rank) {
  const std::int64_t m = shape.micro_batches;
  const std::int64_t warm_up = std::min<std::int64_t>(shape.pp - rank - 1, m);
  Order order(1);
  for (std::int64_t k = 0; k < m + warm_up; ++k) {
    if (k < m) order.forward(0);
    if (k < warm_up) continue;
    order.backward(0);
    if (k - warm_up >= rank) order.weight(0);
  }
  repeat(std::min<std::int64_t>(rank, m), [&] { order.weight(0); });
  return order.take();
}

std::vector<ComputeStep> interleaved(const ScheduleShape& shape, int rank, std::int64_t group) {
  const std::int64_t m = shape.micro_batches;
  if (group == 0) group = micro_batch_group(shape.pp, m);
  const int v = shape.vpp;
  MEGA_CHECK(group > 0, "interleaving needs at least as many micro-batches as pipeline ranks");
  std::vector<ComputeStep> forward;
  for (std::int64_t first = 0; first < m; first += group) {
    for (int chunk = 0; chunk < v; ++chunk) {
      for (std::int64_t k = first; k < std::min(first + group, m); ++k) {
        forward.push_back({Pass::Forward, chunk, k});
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
    order.push_back({Pass::Backward, v - 1 - mirror.chunk, mirror.micro_batch});
  }
  return order;
}

// ZB-V (Qi et al. 2024, section 4): F, B and W of a chunk take a unit each. The first micro-batch
// comes back to rank r after 2 (p - r) - 1 forwards of the way down, r pairs and as many again of
// the way up; then F B W of both chunks alternate. Fewer than 2 p - 1 micro-batches leave gaps in
// the order of 2 p - 1.
std::vector<ComputeStep> zb_v(const ScheduleShape& shape, int rank) {
  const std::int64_t p = shape.pp, r = rank;
  const std::int64_t m = std::max(2 * p - 1, shape.micro_batches);
  Order order(2);
  repeat(2 * (p - r) - 1, [&] { order.forward(0); });
  repeat(r, [&] {
    order.forward(1);
    order.forward(0);
  });
  repeat(p - r, [&] {
    order.forward(1);
    order.full_backward(1);
  });
  while (order.done(Pass::Forward, 1) < m) {
    if (order.done(Pass::Forward, 0) < m) order.forward(0);
    order.full_backward(0);
    order.forward(1);
    order.full_backward(1);
  }
  repeat(r, [&] {
    order.backward(0);
    order.backward(1);
  });
  repeat(p - r, [&] { order.full_backward(0); });
  for (const int chunk : {1, 0}) {
    repeat(m - order.done(Pass::WeightGradient, chunk), [&] { order.weight(chunk); });
  }
  std::vector<ComputeStep> steps = order.take();
  std::erase_if(steps, [&](const ComputeStep& s) { return s.micro_batch >= shape.micro_batches; });
  return steps;
}

// DualPipeV (DeepSeek's DualPipe repository, the cut-in-half V form): each forward of one chunk is
// paired with a backward of the other; weight gradients are put off only where they fill a gap.
class DualpipeV {
 public:
  explicit DualpipeV(const ScheduleShape& shape, int rank)
      : p_(shape.pp), r_(rank), m_(shape.micro_batches) {
    MEGA_CHECK(m_ >= 2 * p_, "DualPipeV needs two micro-batches a pipeline rank");
  }

  std::vector<ComputeStep> run() {
    const std::int64_t behind = p_ - r_ - 1;
    repeat(2 * behind, [&] { order_.forward(0); });
    repeat(r_ + 1, [&] {
      order_.forward(0);
      order_.forward(1);
    });
    repeat(behind, [&] {
      order_.full_backward(1);
      order_.forward(1);
    });
    repeat(m_ - 2 * p_ + r_ + 1, [&] {
      order_.forward(0);
      order_.full_backward(1);
      order_.forward(1);
      order_.full_backward(0);
    });
    repeat(behind, [&] {
      order_.full_backward(1);
      order_.forward(1);
      order_.full_backward(0);
    });
    cool_down(behind);
    return order_.take();
  }

 private:
  // r + 1 pairs of backwards, of which the second half put their weight gradients off (odd ranks
  // begin with the pair in the middle, even ones within it), then the gaps are filled.
  void cool_down(std::int64_t behind) {
    const std::int64_t middle = (r_ + 1) / 2;
    for (std::int64_t i = 0; i <= r_; ++i) {
      backward(1, i > middle || (i == middle && r_ % 2 == 1));
      backward(0, i >= middle);
    }
    repeat(behind, [&] {
      catch_up();
      backward(0, true);
    });
    repeat(r_ + 1, [&] { catch_up(); });
    MEGA_CHECK(put_off_.empty(), "weight gradients are left over");
  }

  void backward(int chunk, bool puts_off) {
    order_.backward(chunk);
    if (puts_off) {
      put_off_.push_back(chunk);
    } else {
      order_.weight(chunk);
    }
  }
  void catch_up() {
    order_.weight(put_off_.front());
    put_off_.pop_front();
  }

  std::int64_t p_, r_, m_;
  Order order_{2};
  std::deque<int> put_off_;  // chunks whose weight gradient is due
};

}  // namespace

bool is_folded(ScheduleKind kind) {
  return kind == ScheduleKind::ZbV || kind == ScheduleKind::DualpipeV;
}

bool splits_backward(ScheduleKind kind) {
  return kind == ScheduleKind::ZbH1 || is_folded(kind);
}

StagePlace place_of_stage(ScheduleKind kind, int pp, int stage) {
  if (is_folded(kind) && stage >= pp) return {2 * pp - 1 - stage, 1};
  return {stage % pp, stage / pp};
}

int stage_of(ScheduleKind kind, int pp, StagePlace place) {
  if (is_folded(kind) && place.chunk == 1) return 2 * pp - 1 - place.rank;
  return place.chunk * pp + place.rank;
}

std::int64_t micro_batch_group(int pp, std::int64_t micro_batches) {
  for (std::int64_t n = pp; n <= micro_batches; ++n) {
    if (micro_batches % n == 0 || micro_batches % n >= pp) return n;
  }
  return 0;
}

std::vector<ComputeStep> compute_order(const ScheduleShape& shape, int rank, std::int64_t group) {
  switch (shape.kind) {
    case ScheduleKind::OneFOneB:
      return shape.vpp > 1 ? interleaved(shape, rank, group) : one_f_one_b(shape, rank);
    case ScheduleKind::Gpipe:
      return gpipe(shape);
    case ScheduleKind::ZbH1:
      return zb_h1(shape, rank);
    case ScheduleKind::ZbV:
      return zb_v(shape, rank);
    case ScheduleKind::DualpipeV:
      return DualpipeV(shape, rank).run();
  }
  MEGA_CHECK(false, "a schedule without an order");
}

}  // namespace mega
