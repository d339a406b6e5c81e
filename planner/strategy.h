// A layout of training over ranks: the whole freedom of the search, and nothing outside it is
// chosen later. What evaluating one yields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/units.h"
#include "ir/schedule_order.h"

namespace mega::planner {

using mega::ScheduleKind;
enum class ContextKind : std::uint8_t { Ring, AllGather, Ulysses };

struct Recompute {
  enum class Kind : std::uint8_t { None, Selective, Full };
  Kind kind = Kind::None;
  std::vector<std::string> modules;  // Selective: sorted
  int layers = 0;                    // Full: first n layers of each virtual stage; 0 means all
  bool operator==(const Recompute&) const = default;
  auto operator<=>(const Recompute&) const = default;
};

struct Overlap {
  bool gradient_reduce = false;
  bool parameter_gather = false;
  bool tensor = false;
  bool pipeline = false;
  bool expert = false;
  bool operator==(const Overlap&) const = default;
  auto operator<=>(const Overlap&) const = default;
};

struct Strategy {
  int tp = 1, cp = 1, pp = 1, vpp = 1, dp = 1, ep = 1, etp = 1;
  int micro_batch = 1;      // sequences
  std::vector<int> stages;  // layers of each virtual stage in model order; pp * vpp entries.
                            // Where virtual stage s is: place_of_stage of ir/schedule_order.h.
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  bool sequence_parallel = false;
  Recompute recompute;
  int zero = 0;
  int zero_group = 1;
  ContextKind context = ContextKind::Ring;
  Overlap overlap;
  std::string rank_order = "tp-cp-ep-dp-pp";  // innermost first
  bool operator==(const Strategy&) const = default;
  auto operator<=>(const Strategy&) const = default;  // the canonical order that breaks ties
};

int world_size(const Strategy& strategy);  // tp * cp * pp * dp
// The fewest ranks that hold both meshes, whatever dp: pp * lcm(tp * cp, ep * etp).
std::int64_t least_world(const Strategy& strategy);
// Micro-batches per step and data-parallel rank; global_batch must divide.
int micro_batches(const Strategy& strategy, std::int64_t global_batch);

std::string to_string(ScheduleKind kind);  // "1f1b"
std::string to_string(ContextKind kind);
std::string to_string(const Recompute& recompute);  // "selective:core_attention+norms", "full:2"
std::vector<std::string> names(const Overlap& overlap);
// The inverses; nothing for a word that names none. "full", "full:2", "selective:a+b" in any order.
std::optional<ScheduleKind> schedule_named(std::string_view name);
std::optional<ContextKind> context_named(std::string_view name);
std::optional<Recompute> recompute_named(std::string_view text);
std::optional<Overlap> overlap_named(const std::vector<std::string>& names);
// "tp2 pp2 dp2 mb1 sp", only what differs from 1 or none; for people.
std::string summary(const Strategy& strategy);

// Where a step's time goes, of the rank with the largest compute. Whole nanoseconds; they add up
// to the step time.
struct TimeTerms {
  std::int64_t compute_ns = 0, recompute_ns = 0, exposed_tp_ns = 0, exposed_cp_ns = 0,
               exposed_ep_ns = 0, exposed_pp_ns = 0, exposed_dp_ns = 0, bubble_ns = 0,
               optimizer_ns = 0, other_ns = 0;
  bool operator==(const TimeTerms&) const = default;
};

// Memory of one pipeline rank; the parts add up to `total`.
struct StageMemory {
  int stage = 0;  // pipeline rank
  Bytes parameters, gradients, optimizer, activations, temporary, communication, overhead, total;
  bool operator==(const StageMemory&) const = default;
};

// What evaluate() says of one strategy. Time is null without a cluster.
struct Evaluation {
  std::int64_t step_ns = 0;
  TimeTerms time;
  std::vector<StageMemory> memory;  // per pipeline rank
  int peak_stage = 0;               // the fullest; ties to the lowest
  std::string peak_at;              // "stage 0, 4 micro-batches in flight"
  bool operator==(const Evaluation&) const = default;
};
Bytes peak(const Evaluation& evaluation);

// Never above what evaluate() reports for any strategy of the subtree; the search relies on it.
struct Bounds {
  std::int64_t step_ns = 0;
  Bytes peak;
};

}  // namespace mega::planner
