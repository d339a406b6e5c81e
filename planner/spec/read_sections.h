// The sections of a job file, each from its mapping to its struct. Errors go to the reader's log;
// what could not be read keeps its default, so that the other keys are still checked.
#pragma once

#include <string>
#include <vector>

#include "planner/spec/job_spec.h"
#include "planner/spec/mapping_reader.h"
#include "planner/spec/resolve.h"

namespace mega::planner {

// Beyond these no product of sizes that the planner forms can overflow 63 bits.
inline constexpr std::int64_t kLargestDegree = 1 << 20;  // parallel degrees, GPUs
inline constexpr std::int64_t kLargestSize = 1 << 24;    // widths, sequence lengths, batches
inline constexpr std::int64_t kLargestVocabulary = 1 << 28;
inline constexpr std::int64_t kMostLayers = 10000;
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

ModelSpec read_model(MappingReader model);
MoeSpec read_experts(MappingReader moe, const std::string& family);
ClusterSpec read_cluster(MappingReader cluster, Resolver& resolver, ReadLog& log);
TrainingSpec read_training(MappingReader training);
LayoutSpec read_layout(MappingReader layout);
SearchSpec read_search(MappingReader search);

// The fields of `layout:`, which are those of `search: {allow: ...}` too.
const std::vector<std::string>& layout_fields();

}  // namespace mega::planner
