#include "planner/search/infeasible.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "planner/rules.h"

namespace mega::planner {
namespace {

// Layout keys whose value differs between two combinations: the user left them open.
std::set<std::string> differing(const Strategy& a, const Strategy& b) {
  std::set<std::string> keys;
  const auto compare = [&keys](const char* key, const auto& x, const auto& y) {
    if (x != y) keys.insert(key);
  };
  compare("layout.tp", a.tp, b.tp);
  compare("layout.cp", a.cp, b.cp);
  compare("layout.pp", a.pp, b.pp);
  compare("layout.vpp", a.vpp, b.vpp);
  compare("layout.dp", a.dp, b.dp);
  compare("layout.ep", a.ep, b.ep);
  compare("layout.etp", a.etp, b.etp);
  compare("layout.micro_batch", a.micro_batch, b.micro_batch);
  compare("layout.schedule", a.schedule, b.schedule);
  compare("layout.sequence_parallel", a.sequence_parallel, b.sequence_parallel);
  compare("layout.recompute", a.recompute, b.recompute);
  compare("layout.zero", a.zero, b.zero);
  compare("layout.zero_group", a.zero_group, b.zero_group);
  compare("layout.context", a.context, b.context);
  compare("layout.overlap", a.overlap, b.overlap);
  compare("layout.rank_order", a.rank_order, b.rank_order);
  return keys;
}

std::vector<RuleResult> broken_rules(const JobSpec& job, const Strategy& strategy) {
  std::vector<RuleResult> broken;
  for (RuleResult& rule : check_rules(job, strategy))
    if (!rule.ok) broken.push_back(std::move(rule));
  return broken;
}

struct LegalByMemory {
  Bytes bound;
  Strategy strategy;
};

std::vector<LegalByMemory> legal_by_memory(const JobSpec& job, const Choices& choices,
                                           const SearchCallbacks& callbacks) {
  std::vector<LegalByMemory> legal;
  for_each_combination(job, choices, [&](const Strategy& strategy) {
    if (!is_legal(job, strategy)) return;
    Strategy without_cut = strategy;
    without_cut.stages.clear();
    legal.push_back({callbacks.bounds(without_cut).peak, strategy});
  });
  std::stable_sort(legal.begin(), legal.end(), [](const LegalByMemory& a, const LegalByMemory& b) {
    return a.bound < b.bound;
  });
  return legal;
}

struct Smallest {
  Strategy strategy;
  Evaluation evaluation;
};

constexpr std::size_t kEvaluations = 64;  // to look for the smallest: enough for a message

std::optional<Smallest> smallest_peak(const JobSpec& job, const Choices& choices,
                                      const SearchCallbacks& callbacks) {
  std::optional<Smallest> best;
  std::size_t evaluations = 0;
  for (LegalByMemory& legal : legal_by_memory(job, choices, callbacks)) {
    if (best && (legal.bound >= peak(best->evaluation) || evaluations == kEvaluations)) break;
    if (legal.strategy.stages.empty()) callbacks.balance(legal.strategy);
    Evaluation evaluation = callbacks.evaluate(legal.strategy);
    ++evaluations;
    if (!best || peak(evaluation) < peak(best->evaluation))
      best = Smallest{std::move(legal.strategy), std::move(evaluation)};
  }
  return best;
}

// The least multiple of the cluster, by powers of two, on which some layout fits.
std::string larger_world(const JobSpec& job, const Choices& choices,
                         const SearchCallbacks& callbacks) {
  for (const int factor : {2, 4, 8, 16, 32, 64}) {
    JobSpec larger = job;
    larger.cluster->nodes *= factor;
    larger.cluster->gpus *= factor;
    const std::optional<Smallest> smallest = smallest_peak(larger, choices, callbacks);
    if (!smallest || peak(smallest->evaluation) > callbacks.limit) continue;
    return std::to_string(larger.cluster->gpus) + " GPUs would do: " + summary(smallest->strategy) +
           " peaks at " + to_string(peak(smallest->evaluation));
  }
  return "";
}

}  // namespace

void explain_illegal(const JobSpec& job, const Choices& choices, SearchResult& result) {
  std::optional<Strategy> first, nearest;
  int fewest = 0;
  std::set<std::string> open;
  for_each_combination(job, choices, [&](const Strategy& strategy) {
    if (!first) first = strategy;
    open.merge(differing(*first, strategy));
    const int broken = count_broken(job, strategy);
    if (nearest && broken >= fewest) return;
    nearest = strategy;
    fewest = broken;
  });
  MEGA_CHECK(nearest.has_value(), "a space without combinations");
  std::vector<RuleResult> broken = broken_rules(job, *nearest);
  result.nearest = *nearest;
  const auto is_given = [&open](const RuleResult& rule) {
    return std::none_of(rule.keys.begin(), rule.keys.end(),
                        [&open](const std::string& key) { return open.count(key) != 0; });
  };
  if (std::any_of(broken.begin(), broken.end(), is_given)) {
    result.errors = rule_errors(job, *nearest);
  }
  for (RuleResult& rule : broken) {
    result.infeasible.push_back(
        {std::move(rule.rule), std::move(rule.message), std::move(rule.nearest)});
  }
}

void explain_memory(const JobSpec& job, const Choices& choices, const SearchCallbacks& callbacks,
                    SearchResult& result) {
  Infeasible why;
  why.rule = "memory";
  const std::optional<Smallest> smallest = smallest_peak(job, choices, callbacks);
  MEGA_CHECK(smallest.has_value(), "over memory, yet nothing legal");
  const Bytes least = peak(smallest->evaluation);
  const Bytes capacity = job.cluster->gpu.memory;
  why.message = "no legal layout fits: the smallest found, " + summary(smallest->strategy) +
                ", peaks at " + to_string(least) + " on " + smallest->evaluation.peak_at +
                "; a rank has " + to_string(callbacks.limit) + " (" + to_string(capacity) +
                " less a margin of " + to_string(memory_margin(job)) + ")";
  why.nearest = larger_world(job, choices, callbacks);
  if (least <= capacity) {
    // Rounded down, so that who follows the advice isn't sent away again.
    const std::int64_t mib = (capacity - least).count() >> 20;
    why.nearest = "search.memory_margin of at most " +
                  (mib > 0 ? std::to_string(mib) + "MiB" : to_string(capacity - least)) +
                  (why.nearest.empty() ? " would do" : ", or " + why.nearest);
  }
  if (why.nearest.empty()) {
    why.nearest = "a rank with " + to_string(least + memory_margin(job)) + " of memory";
  }
  result.infeasible = {std::move(why)};
  result.nearest = smallest->strategy;
}

}  // namespace mega::planner
