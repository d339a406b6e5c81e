#include "tools/megaplan_commands.h"

#include <iostream>
#include <utility>

#include "ir/base/text.h"
#include "ir/plan_text.h"
#include "ir/plan_verify.h"
#include "planner/compile.h"
#include "planner/layout_defaults.h"
#include "planner/output/explain.h"
#include "planner/output/header_entries.h"
#include "planner/output/json.h"
#include "planner/output/show.h"
#include "planner/output/table.h"
#include "planner/spec/bundled.h"
#include "tools/help_format.h"
#include "tools/megaplan_files.h"
#include "tools/megaplan_input.h"
#include "tools/megaplan_plan.h"

namespace mega::tool {
namespace {

using planner::Candidate;
using planner::Estimate;
using planner::Planner;
using planner::Strategy;

// Prints the answer of a command.
int answer(const Options& options, const std::string& text, int code = kDone) {
  const Status printed = print(text);
  return printed.ok() ? code : refuse(options, printed.errors(), {});
}

int answer(const Options& options, const std::string& title, const Estimate& estimate) {
  return answer(options, options.json ? json_of(estimate) : title + "\n" + table_of(estimate));
}

// A plan is what it is.
Status no_settings(const Options& options) {
  if (options.sets.empty()) return Ok{};
  return usage_error("--set changes a job, and " + quote(options.input) + " is a plan",
                     "compile the job again with this setting");
}

int estimate_plan(const Options& options) {
  const Status settings = no_settings(options);
  if (!settings.ok()) return refuse(options, settings.errors(), {});
  const ReadPlan read = read_plan(options.input);
  if (!read.plan.ok()) return refuse(options, read.plan.errors(), read.sources);
  const Header& header = read.plan.value().header;
  const Result<Estimate> estimate = planner::read_estimate(options.input, header);
  if (!estimate.ok()) return refuse(options, estimate.errors(), read.sources);
  return answer(options, planner::title_of(header), estimate.value());
}

Status no_such_rank(int rank, int world) {
  return usage_error(
      "--rank " + std::to_string(rank) + " is none of the " + std::to_string(world) + " ranks",
      "use 0 to " + std::to_string(world - 1));
}

int show_plan(const Options& options) {
  if (!options.stage.empty() && options.stage != "plan") {
    return refuse(
        options,
        {usage_error(quote(options.input) + " is a plan: it has no stage " + quote(options.stage),
                     "give the job instead")},
        {});
  }
  const Status settings = no_settings(options);
  if (!settings.ok()) return refuse(options, settings.errors(), {});
  const ReadPlan read = read_plan(options.input);
  if (!read.plan.ok()) return refuse(options, read.plan.errors(), read.sources);
  const Plan& plan = read.plan.value();
  if (options.rank && *options.rank >= world_size(plan))
    return refuse(options, no_such_rank(*options.rank, world_size(plan)).errors(), {});
  return answer(options,
                print_plan(options.rank ? planner::program_of_rank(plan, *options.rank) : plan));
}

Result<planner::Explained> explain_one(const Options& options, const std::string& option,
                                       const std::string& layout, Sources& sources) {
  MEGA_TRY(const std::vector<std::string> settings, layout_settings(option, layout));
  planner::ReadJob read = read_layout(options, option, settings);
  sources.merge(read.sources);
  MEGA_TRY(planner::JobSpec job, std::move(read.job));
  Planner planner(std::move(job));
  return planner::explain(planner);
}

}  // namespace

int refuse(const Options& options, const Errors& errors, const Sources& sources) {
  if (options.json) {
    static_cast<void>(print(planner::json_of(errors)));
  } else {
    std::cerr << render(errors, sources);
  }
  return kWrongInput;
}

int estimate(const Options& options) {
  if (is_plan_file(options.input)) return estimate_plan(options);
  planner::ReadJob read = read_job(options);
  if (!read.job.ok()) return refuse(options, read.job.errors(), read.sources);
  Planner planner(std::move(read.job).value());
  const Result<Strategy> layout = planner.layout();
  if (!layout.ok()) return refuse(options, layout.errors(), read.sources);
  Estimate estimate = planner::estimate_of(planner.candidate(layout.value()));
  estimate.defaulted = planner::defaulted_fields(planner.job());
  return answer(options, planner::title_of(planner.job()), estimate);
}

int compile(const Options& options) {
  planner::ReadJob read = read_job(options);
  if (!read.job.ok()) return refuse(options, read.job.errors(), read.sources);
  Planner planner(std::move(read.job).value());
  const Result<Strategy> layout = planner.layout();
  if (!layout.ok()) return refuse(options, layout.errors(), read.sources);
  const Candidate candidate = planner.candidate(layout.value());
  if (!candidate.fits) {
    std::cerr << "megaplan: no plan: the layout peaks at " << to_string(peak(candidate.evaluation))
              << " (" << candidate.evaluation.peak_at << "), and with a margin of "
              << to_string(candidate.margin) << " that is above the "
              << to_string(candidate.capacity) << " of a rank; `megaplan explain` tells more\n";
    return kNoPlan;
  }
  const Status written = write_plan(planner, layout.value(), options.output);
  return written.ok() ? kDone : refuse(options, written.errors(), {});
}

int verify(const Options& options) {
  const ReadPlan read = read_plan(options.input);
  if (!read.plan.ok()) return refuse(options, read.plan.errors(), read.sources);
  const Plan& plan = read.plan.value();
  const Errors errors = mega::verify(plan, options.input);
  if (!errors.empty()) return refuse(options, errors, read.sources);
  return answer(options, options.input + ": verified: " + std::to_string(world_size(plan)) +
                             " ranks, " + std::to_string(plan.programs.size()) + " programs\n");
}

int show(const Options& options) {
  if (is_plan_file(options.input)) return show_plan(options);
  planner::ReadJob read = read_job(options);
  if (!read.job.ok()) return refuse(options, read.job.errors(), read.sources);
  Planner planner(std::move(read.job).value());
  const auto stage =
      options.stage.empty() ? planner::Stage::Model : planner::stage_named(options.stage).value();
  if (stage == planner::Stage::Model) return answer(options, planner::show_model(planner));
  const Result<Strategy> layout = planner.layout();
  if (!layout.ok()) return refuse(options, layout.errors(), read.sources);
  const int world = world_size(layout.value());
  if (options.rank && *options.rank >= world)
    return refuse(options, no_such_rank(*options.rank, world).errors(), {});
  return answer(options, planner::show(planner, layout.value(), stage, options.rank));
}

int explain(const Options& options) {
  const bool is_pair = !options.against.empty();
  if (is_pair && options.input == "-") {
    return refuse(options,
                  {usage_error("--against reads the job twice, and standard input can't be",
                               "give the job as a file")},
                  {});
  }
  Sources sources;
  std::vector<planner::Explained> layouts;
  Errors errors;
  const auto add = [&](const std::string& option, const std::string& layout) {
    Result<planner::Explained> explained = explain_one(options, option, layout, sources);
    if (explained.ok())
      layouts.push_back(std::move(explained).value());
    else
      errors.insert(errors.end(), explained.errors().begin(), explained.errors().end());
  };
  add("--layout", options.layout);
  if (is_pair && errors.empty()) add("--against", options.against);
  if (!errors.empty()) return refuse(options, errors, sources);
  const planner::Explanation explanation = planner::compare(std::move(layouts));
  return answer(options, options.json ? json_of(explanation) : table_of(explanation));
}

int list(const Options& options) {
  std::string text;
  std::size_t width = 0;
  const auto specs = planner::list_bundled(options.input, specs_directory(options));
  if (specs.empty()) {
    return refuse(options,
                  {usage_error("no " + options.input + " are found beside this program",
                               "install it, or keep the specs folder where it was built")},
                  {});
  }
  for (const planner::BundledSpec& spec : specs) width = std::max(width, spec.name.size());
  for (const planner::BundledSpec& spec : specs) {
    std::string name = spec.name;
    name.resize(width + 2, ' ');
    text += name + spec.description + "\n";
  }
  return answer(options, wrap(text));
}

}  // namespace mega::tool
