// megaplan search, and the plans that search and compile write.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <utility>

#include "ir/base/check.h"
#include "ir/plan_text.h"
#include "ir/plan_verify.h"
#include "planner/output/json.h"
#include "planner/output/table.h"
#include "tools/megaplan_commands.h"
#include "tools/megaplan_files.h"
#include "tools/megaplan_input.h"
#include "tools/megaplan_plan.h"

namespace mega::tool {
namespace {

using planner::Estimate;
using planner::Planner;
using planner::SearchResult;
using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t stop_requested = 0;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One line that is written over, on a terminal only.
class Progress {
 public:
  void show(std::int64_t evaluated, std::int64_t left, std::int64_t best_ns) {
    constexpr double kSecondsBetween = 0.2;
    if (!is_terminal_ || seconds_since(last_) < kSecondsBetween) return;
    last_ = Clock::now();
    std::cerr << "\r" << evaluated << " evaluated, " << left << " left";
    if (best_ns >= 0) {
      std::cerr << ", best " << to_string(Seconds(static_cast<double>(best_ns) / 1e9));
    }
    std::cerr << "   " << std::flush;
    has_written_ = true;
  }
  void clear() const {
    if (has_written_) std::cerr << "\r" << std::string(kWidth, ' ') << "\r" << std::flush;
  }

 private:
  static constexpr std::size_t kWidth = 79;
  bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool has_written_ = false;
  Clock::time_point last_ = Clock::now();
};

SearchResult timed_search(const Options& options, Planner& planner, double& wall_seconds) {
  Progress progress;
  planner::SearchOptions search_options;
  search_options.top = options.top;
  search_options.budget = options.budget;
  search_options.keep_going = [&](std::int64_t evaluated, std::int64_t left, std::int64_t best_ns) {
    progress.show(evaluated, left, best_ns);
    if (stop_requested == 0) return true;
    // Interrupted before anything was found: the next layouts have the best bounds of all, and
    // one that fits is a better answer than none.
    constexpr std::int64_t kLastTries = 100;
    return best_ns < 0 && evaluated < kLastTries;
  };
  search_options.interrupted = [] { return stop_requested != 0; };
  const Clock::time_point start = Clock::now();
  SearchResult result = planner.search(search_options);
  wall_seconds = seconds_since(start);
  progress.clear();
  return result;
}

int exit_code(const SearchResult& result) {
  const bool is_infeasible = result.top.empty() && !result.infeasible.empty();
  return is_infeasible ? kNoPlan : kDone;
}

Status write_files(const Options& options, Planner& planner, const SearchResult& result,
                   double wall_seconds) {
  if (!options.stats.empty()) {
    MEGA_TRY_STATUS(write_whole(options.stats, planner::stats_json(result.counts, wall_seconds)));
  }
  if (!options.output.empty() && !result.top.empty()) {
    MEGA_TRY_STATUS(write_plan(planner, result.top[0].strategy, options.output));
  }
  return Ok{};
}

}  // namespace

void request_stop() {
  stop_requested = 1;
}

Status write_plan(Planner& planner, const planner::Strategy& strategy, const std::string& path) {
  const Plan plan = planner.compile(strategy);
  const Errors errors = mega::verify(plan, path);
  if (!errors.empty()) std::cerr << render(errors, {});
  MEGA_CHECK(errors.empty(), "megaplan made a plan that doesn't verify");
  return write_whole(path, print_plan(plan));
}

int search(const Options& options) {
  planner::ReadJob read = read_job(options);
  if (!read.job.ok()) return refuse(options, read.job.errors(), read.sources);
  Planner planner(std::move(read.job).value());
  double wall_seconds = 0;
  const SearchResult result = timed_search(options, planner, wall_seconds);
  if (!result.errors.empty()) return refuse(options, result.errors, read.sources);
  const planner::SearchCounts& counts = result.counts;
  const std::int64_t settled = counts.over_memory + counts.bounded + counts.evaluated;
  std::cerr << "megaplan: settled " << settled << " of " << counts.space << " layouts in "
            << to_string(Seconds(wall_seconds)) << "\n";
  // The files first: who asked for a plan that can't be written wants no answer either.
  const Status written = write_files(options, planner, result, wall_seconds);
  if (!written.ok()) return refuse(options, written.errors(), {});
  if (!options.output.empty() && result.top.empty())
    std::cerr << "megaplan: no layout was found, " << options.output << " is not written\n";
  std::vector<Estimate> top;
  for (const planner::Found& found : result.top)
    top.push_back(planner::estimate_of(planner.candidate(found.strategy)));
  const Status printed =
      print(options.json ? json_of(result, top)
                         : planner::title_of(planner.job()) + "\n" + table_of(result, top));
  return printed.ok() ? exit_code(result) : refuse(options, printed.errors(), {});
}

}  // namespace mega::tool
