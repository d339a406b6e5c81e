// Which computations a pipeline rank runs in which order: the five schedules, as pure functions.
//
// A virtual stage is a run of layers. With vpp chunks on each of pp ranks, stage s is chunk s / pp
// of rank s mod pp; the V kinds fold two chunks back, so that the last stage meets the first:
//
//   round (pp 3, vpp 2)          V (pp 3)
//   rank 0  stages 0, 3          rank 0  stages 0, 5
//   rank 1  stages 1, 4          rank 1  stages 1, 4
//   rank 2  stages 2, 5          rank 2  stages 2, 3: neighbours on one rank
#pragma once

#include <cstdint>
#include <vector>

namespace mega {

enum class ScheduleKind : std::uint8_t {
  OneFOneB,   // interleaved when vpp > 1 (Narayanan et al. 2021)
  Gpipe,      // all forwards, then all backwards (Huang et al. 2019); a slot per micro-batch
  ZbH1,       // 1F1B whose weight gradients fill the bubble (Qi et al. 2023, ZB-H1)
  ZbV,        // V; no bubble but the first wait, memory of 1F1B (Qi et al. 2024, ZB-V)
  DualpipeV,  // V; pairs a forward with a backward of the other chunk (DeepSeek, DualPipeV)
};
// Virtual stage s is on rank min(s, 2 pp - 1 - s); two chunks a rank.
bool is_folded(ScheduleKind kind);
// Weight gradients are steps of their own.
bool splits_backward(ScheduleKind kind);

struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  int pp = 1;
  int vpp = 1;
  std::int64_t micro_batches = 1;
  bool overlap_pipeline = false;  // issue each receive one computation early: hides its time,
                                  // holds one more slot
  bool overlap_gradient_reduce = false;  // reduce on a queue of its own
  bool reduces_gradients = false;        // dp or anything else makes gradients partial
  bool has_tied_copies = false;          // first and last stage hold copies of one tensor
  bool gathers_parameters = false;       // at the start of the step, on a queue of its own
  bool operator==(const ScheduleShape&) const = default;
  auto operator<=>(const ScheduleShape&) const = default;
};

// Where a virtual stage is, and the inverse.
struct StagePlace {
  int rank = 0;
  int chunk = 0;
  bool operator==(const StagePlace&) const = default;
};
StagePlace place_of_stage(ScheduleKind kind, int pp, int stage);
int stage_of(ScheduleKind kind, int pp, StagePlace place);

enum class Pass : std::uint8_t {
  Forward,
  Backward,        // all of it, or the input's gradient where the kind splits it
  WeightGradient,  // what a split backward leaves
};

// One pass of one chunk on one micro-batch.
struct ComputeStep {
  Pass pass = Pass::Forward;
  int chunk = 0;
  std::int64_t micro_batch = 0;
  bool operator==(const ComputeStep&) const = default;
};

// Micro-batches that go through a chunk before the next chunk's turn: the least N >= pp with
// m % N == 0 or m % N >= pp (Megatron's rule); m itself when no smaller one is legal, 0 when
// m < pp, which no interleaved schedule allows.
std::int64_t micro_batch_group(int pp, std::int64_t micro_batches);

// The order of computations of a rank. Each chunk sees the micro-batches in order in every pass.
// Needs, of the kind: interleaved m >= pp; V pp > 1 and vpp 2; DualPipeV m >= 2 pp; others vpp 1.
// `group` is that of the interleaved schedule, 0 for micro_batch_group().
std::vector<ComputeStep> compute_order(const ScheduleShape& shape, int rank,
                                       std::int64_t group = 0);

}  // namespace mega
