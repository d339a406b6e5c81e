#include "planner/search/search.h"

#include <algorithm>
#include <utility>

#include "planner/rules.h"
#include "planner/search/infeasible.h"
#include "planner/search/space.h"
#include "planner/search/top_list.h"

namespace mega::planner {
namespace {

// A subtree: one strategy, its cut of the stages open.
struct Open {
  Score bound;
  Strategy strategy;
};

Score score_of(bool by_memory, std::int64_t step_ns, Bytes peak) {
  return by_memory ? Score{peak.count(), step_ns} : Score{step_ns, 0};
}

Strategy without_cut(Strategy strategy) {
  strategy.stages.clear();
  return strategy;
}

class Search {
 public:
  Search(const SearchCallbacks& callbacks, const SearchOptions& options)
      : callbacks_(callbacks), options_(options), top_(options.top) {}

  void add(const Strategy& strategy) {
    ++counts_.space;
    if (is_cut_short_) return;
    if (options_.interrupted && options_.interrupted()) {
      is_cut_short_ = true;
      return;
    }
    const Bounds bounds = callbacks_.bounds(without_cut(strategy));
    if (exceeds(bounds.peak)) {
      ++counts_.over_memory;
    } else {
      open_.push_back({score_of(callbacks_.by_memory, bounds.step_ns, bounds.peak), strategy});
    }
  }
  void add_illegal() { ++counts_.illegal; }

  // Best first: after the first bound that cannot enter the full list, none can.
  void run() {
    walk();
    if (!is_cut_short_) return;
    counts_.proven_optimal = false;  // nothing is known of those without a bound
    counts_.gap = 1;
  }

  SearchResult result() && {
    SearchResult result;
    result.top = std::move(top_).take();
    result.counts = counts_;
    return result;
  }

 private:
  void walk() {
    std::stable_sort(open_.begin(), open_.end(),
                     [](const Open& a, const Open& b) { return a.bound < b.bound; });
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (top_.is_closed(open_[i].bound, without_cut(open_[i].strategy))) {
        counts_.bounded += static_cast<std::int64_t>(open_.size() - i);
        return;
      }
      if (!top_.could_enter(open_[i].bound, without_cut(open_[i].strategy))) {
        ++counts_.bounded;
        continue;
      }
      if (!may_go_on(open_.size() - i)) {
        stop_at(i);
        return;
      }
      look_at(open_[i]);
    }
  }

  bool exceeds(Bytes peak) const { return callbacks_.limit > Bytes(0) && peak > callbacks_.limit; }

  bool may_go_on(std::size_t left) const {
    if (options_.budget > 0 && tries_ >= options_.budget) return false;
    return !options_.keep_going ||
           options_.keep_going(tries_, static_cast<std::int64_t>(left), top_.best_ns());
  }

  void look_at(const Open& open) {
    Strategy strategy = open.strategy;
    const bool has_cut = !strategy.stages.empty() || callbacks_.balance(strategy);
    if (!has_cut) {
      ++counts_.over_memory;
      return;
    }
    ++tries_;
    Evaluation evaluation = callbacks_.evaluate(strategy);
    const Bytes peak_bytes = peak(evaluation);
    if (exceeds(peak_bytes)) {
      ++counts_.over_memory;
      return;
    }
    ++counts_.evaluated;
    const Score score = score_of(callbacks_.by_memory, evaluation.step_ns, peak_bytes);
    MEGA_CHECK(!(score < open.bound), "bound above the evaluation of " + summary(strategy));
    const Strategy& free_fields = open.strategy;
    top_.enter(score, without_cut(free_fields), {std::move(strategy), std::move(evaluation)});
  }

  // Open strategies that cannot enter are still discarded by their bounds; the others are left.
  void stop_at(std::size_t first) {
    const Open& next = open_[first];
    for (std::size_t i = first; i < open_.size(); ++i)
      if (!top_.could_enter(open_[i].bound, without_cut(open_[i].strategy))) ++counts_.bounded;
    counts_.proven_optimal = top_.is_best_proven(next.bound, without_cut(next.strategy));
    if (counts_.proven_optimal) return;
    const auto bound = static_cast<double>(next.bound.first);
    const auto best = top_.empty() ? 0 : static_cast<double>(top_.best().first);
    counts_.gap = best > 0 ? std::max(0.0, (best - bound) / best) : 1;
  }

  const SearchCallbacks& callbacks_;
  const SearchOptions& options_;
  SearchCounts counts_;
  std::vector<Open> open_;
  TopList top_;
  std::int64_t tries_ = 0;
  bool is_cut_short_ = false;
};

Diagnostic needs_cluster(const JobSpec& job) {
  Diagnostic error;
  error.file = job.file;
  error.message = "search needs a cluster: without one there are no GPUs to lay the model over";
  error.help = "add e.g. \"cluster: dgx-a100-80g\"; `estimate` works without";
  return error;
}

Diagnostic not_built(const JobSpec& job, const std::string& key) {
  Diagnostic error;
  error.file = job.file;
  if (const auto place = job.places.find(key); place != job.places.end()) {
    error.file = place->second.file;
    error.where = place->second.where;
  }
  error.message = key + " is not built yet";
  error.help = "give the world by cluster.nodes or cluster.gpus";
  return error;
}

Errors refusals(const JobSpec& job, const Result<Choices>& choices) {
  Errors errors = choices.ok() ? Errors{} : choices.errors();
  if (!job.cluster) errors.push_back(needs_cluster(job));
  if (job.search.max_gpus) errors.push_back(not_built(job, "search.max_gpus"));
  return errors;
}

}  // namespace

SearchResult search(const JobSpec& job, const SearchCallbacks& callbacks,
                    const SearchOptions& options) {
  const Result<Choices> choices = choices_of(job);
  if (Errors errors = refusals(job, choices); !errors.empty()) {
    SearchResult refused;
    refused.errors = std::move(errors);
    return refused;
  }
  Search search(callbacks, options);
  for_each_combination(job, choices.value(), [&](const Strategy& strategy) {
    if (is_legal(job, strategy))
      search.add(strategy);
    else
      search.add_illegal();
  });
  search.run();
  SearchResult result = std::move(search).result();
  if (result.counts.space == 0) {
    explain_illegal(job, choices.value(), result);
  } else if (result.top.empty() && result.counts.proven_optimal) {
    explain_memory(job, choices.value(), callbacks, result);
  }
  return result;
}

}  // namespace mega::planner
