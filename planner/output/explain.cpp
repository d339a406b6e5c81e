#include "planner/output/explain.h"

#include <utility>

namespace mega::planner {
namespace {

RuleResult memory_rule(const Candidate& candidate) {
  RuleResult rule;
  rule.rule = "memory";
  rule.ok = candidate.fits;
  rule.keys = {"cluster.gpu.memory"};
  const Bytes needed = peak(candidate.evaluation) + candidate.margin;
  rule.message = "peak " + to_string(peak(candidate.evaluation)) + " + margin " +
                 to_string(candidate.margin) + (candidate.fits ? " <= " : " > ") + "capacity " +
                 to_string(candidate.capacity);
  if (!candidate.fits) rule.nearest = "a rank with " + to_string(needed);
  return rule;
}

Explained explained(Planner& planner, const Strategy& strategy, bool is_legal_layout) {
  Explained result;
  result.summary = summary(strategy);
  result.rules = check_rules(planner.job(), strategy);
  if (is_legal_layout) {
    result.estimate = estimate_of(planner.candidate(strategy));
    result.rules.push_back(memory_rule(result.estimate->candidate));
  }
  return result;
}

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}
double count(Bytes bytes) {
  return static_cast<double>(bytes.count());
}

}  // namespace

Result<Explained> explain(Planner& planner) {
  SearchOptions options;
  options.top = 1;
  const SearchResult result = planner.search(options);
  if (!result.top.empty()) return explained(planner, result.top[0].strategy, true);
  if (!result.nearest) return result.errors;
  Explained nearest = explained(planner, *result.nearest,
                                !result.nearest->stages.empty() && result.counts.space > 0);
  for (RuleResult& rule : nearest.rules)
    if (rule.rule == "memory" && !result.infeasible.empty())
      rule.nearest = result.infeasible[0].nearest;
  return nearest;
}

Explanation compare(std::vector<Explained> layouts) {
  Explanation explanation;
  explanation.layouts = std::move(layouts);
  if (explanation.layouts.size() != 2 || !explanation.layouts[0].estimate ||
      !explanation.layouts[1].estimate)
    return explanation;
  const Candidate& a = explanation.layouts[0].estimate->candidate;
  const Candidate& b = explanation.layouts[1].estimate->candidate;
  const auto add = [&](const std::string& term, double x, double y) {
    explanation.differences.push_back({term, x, y});
  };
  add("step_time_s", seconds(a.evaluation.step_ns), seconds(b.evaluation.step_ns));
  for (const TimeTerm& term : time_terms()) {
    add(std::string("time.") + term.name + "_s", seconds(a.evaluation.time.*term.ns),
        seconds(b.evaluation.time.*term.ns));
  }
  add("mfu", rates_of(a).mfu, rates_of(b).mfu);
  add("memory.peak_bytes", count(peak(a.evaluation)), count(peak(b.evaluation)));
  for (const MemoryTerm& term : memory_terms()) {
    add(std::string("memory.") + term.name + "_bytes",
        count(fullest_stage(a.evaluation).*term.bytes),
        count(fullest_stage(b.evaluation).*term.bytes));
  }
  return explanation;
}

}  // namespace mega::planner
