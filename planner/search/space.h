// The space of a search: every combination of the values that each field of a layout may take.
//
//   layout: {tp: 4}                one value: fixed
//   search: {allow: {tp: [1, 2]}}  these values
//   neither                        every value that is built and could be legal
//
// A field without effect has one value (overlap of gradients at dp 1), so that two combinations
// never mean the same. The cut of the stages is not part of the space: `stages` stays empty
// unless the user gave it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/base/result.h"
#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner {

// The values of each field, ascending. Empty: all that could be legal beside the other fields.
struct Choices {
  std::vector<int> tp, cp, pp, vpp, dp, ep, etp, micro_batch;
  std::vector<ScheduleKind> schedule;
  std::vector<bool> sequence_parallel;
  std::vector<Recompute> recompute;
  std::vector<int> zero, zero_group;
  std::vector<ContextKind> context;
  std::vector<Overlap> overlap;
  std::vector<std::string> rank_order;
};

// What `layout` and `search.allow` leave open. Errors name values that a field cannot have.
Result<Choices> choices_of(const JobSpec& job);

// Every combination in the canonical order, legal or not, each once.
void for_each_combination(const JobSpec& job, const Choices& choices,
                          const std::function<void(const Strategy&)>& visit);

}  // namespace mega::planner
