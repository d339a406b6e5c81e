// What the user asked for: the job file, read, checked key by key and resolved. Every field that
// was absent has its default; free layout fields stay empty.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "planner/spec/cluster_spec.h"
#include "planner/spec/model_spec.h"

namespace mega::planner {

struct ScheduleSpec {
  std::string kind = "constant";  // constant, linear, cosine, inverse_sqrt
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;
  double min_learning_rate = 0;
};

enum class OptimizerKind : std::uint8_t { AdamW, Sgd };

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::AdamW;
  double learning_rate = 3e-4;
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_grad = 1.0;  // 0: none
  double momentum = 0;     // SGD
  ScheduleSpec schedule;
};

struct TrainingSpec {
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 0;  // sequences
  std::string precision = "fp32";
  std::int64_t seed = 1234;
  OptimizerSpec optimizer;
};

// What the user fixed of the Strategy; absent fields are searched or defaulted.
struct LayoutSpec {
  std::optional<int> tp, cp, pp, vpp, dp, ep, etp, micro_batch, zero, zero_group;
  std::optional<std::string> stages_mode;  // "auto" or "even"
  std::optional<std::vector<int>> stages;  // explicit counts
  std::optional<std::string> schedule, recompute, context, rank_order;
  std::optional<bool> sequence_parallel;
  std::optional<std::vector<std::string>> overlap;
};

struct SearchSpec {
  std::map<std::string, std::vector<std::string>> allow;  // field -> values, as text
  std::optional<int> max_gpus;
  std::string objective = "throughput";
  std::optional<Bytes> memory_margin;  // default: 4 % of a GPU, 0 on the CPU
};

// Where each key of the job stands, by its dotted path ("model.heads", "layout.tp"), for messages
// about several keys at once. A key that a bundled spec gave points into that file.
struct Place {
  std::string file;
  SourceLoc where;
};
using Places = std::map<std::string, Place>;

struct JobSpec {
  std::string file;  // as named on the command line
  std::string name;  // the file's stem
  ModelSpec model;
  std::optional<ClusterSpec> cluster;  // absent: memory only, no times
  TrainingSpec training;
  LayoutSpec layout;
  SearchSpec search;
  Places places;
  Sources sources;          // texts of all files read, for diagnostics
  std::string fingerprint;  // 16 hexadecimal digits over the contents of all inputs and --set
};

// What must stay free of each rank's memory: search.memory_margin, else 4 % of a GPU, 0 on the
// CPU and without a cluster.
Bytes memory_margin(const JobSpec& job);

}  // namespace mega::planner
