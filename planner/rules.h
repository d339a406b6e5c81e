// What makes a layout legal: one table of rules, each with an id, a formula and, when it is
// broken, a message with the user's own keys, the values and the nearest legal choice. Search
// prunes with it; estimate, compile and explain print it.
//
// The rules are mathematics (heads can't be cut in pieces) but for the last, not_built, which
// names what this version lacks.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner {

struct RuleResult {
  std::string rule;  // "heads"
  bool ok = true;
  std::string message;            // what is wrong; of a rule that holds, its formula
  std::string nearest;            // "layout.tp: 4", legal by all rules where one change suffices
  std::vector<std::string> keys;  // "layout.tp", "model.heads": the first is the one to change
  bool operator==(const RuleResult&) const = default;
};

// All rules, in the order of the table. Empty `stages` are left to the balancer.
std::vector<RuleResult> check_rules(const JobSpec& job, const Strategy& strategy);

// Whether all rules hold; cheap enough to ask for every strategy of a search.
bool is_legal(const JobSpec& job, const Strategy& strategy);

// How many rules are broken; as cheap as is_legal. 0 means legal.
int count_broken(const JobSpec& job, const Strategy& strategy);

// The broken rules as errors: at the place of the first key that the user gave, notes at the rest.
Errors rule_errors(const JobSpec& job, const Strategy& strategy);

// Fields that have no effect get their one canonical value: sequence_parallel at tp 1, overlap
// without a second rank, zero_group without zero, context at cp 1, schedule at pp 1.
Strategy normalised(Strategy strategy);

// Whether a schedule can have so many chunks a rank: 1f1b any number, the V kinds two, others one.
bool takes_vpp(ScheduleKind kind, int vpp);

// Layers of each virtual stage, as even as it goes when the embedding and the head count as a
// layer each: 30 layers on 4 stages are 7, 8, 8, 7. Every stage has at least one layer.
std::vector<int> even_cut(int layers, int stages);

}  // namespace mega::planner
