#include "planner/layout_defaults.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/base/check.h"
#include "planner/rules.h"

namespace mega::planner {
namespace {

// The reader has refused words that name nothing.
template <class Text, class Parse>
auto parsed(const Text& text, Parse parse) {
  const auto value = parse(text);
  MEGA_CHECK(value.has_value(), "a layout word that was never checked");
  return *value;
}

// Where the world can't be filled, the rule `world` will say so.
int dp_of_world(const JobSpec& job, const Strategy& s) {
  if (!job.cluster) return static_cast<int>(least_world(s) / (std::int64_t{s.tp} * s.cp * s.pp));
  std::int64_t left = job.cluster->gpus;
  for (const int degree : {s.tp, s.cp, s.pp}) left /= degree;
  return static_cast<int>(std::max<std::int64_t>(1, left));
}

Overlap default_overlap(const Strategy& s) {
  Overlap overlap;
  overlap.gradient_reduce = overlap.parameter_gather = s.dp * s.cp > 1;
  overlap.pipeline = s.pp > 1;
  return overlap;
}

// Empty for auto, and where `even` leaves a remainder: that is the business of a rule.
std::vector<int> stages_of(const JobSpec& job, const Strategy& s) {
  if (job.layout.stages) return *job.layout.stages;
  const std::int64_t count = std::int64_t{s.pp} * s.vpp;
  if (job.layout.stages_mode != "even" || job.model.layers % count != 0) return {};
  return std::vector<int>(static_cast<std::size_t>(count),
                          static_cast<int>(job.model.layers / count));
}

// Chunks a rank where nobody says: two of a V, as many as the counts of the stages ask for.
int implied_vpp(const LayoutSpec& given, const Strategy& s) {
  if (s.pp > 1 && is_folded(s.schedule)) return 2;
  const std::size_t counts = given.stages ? given.stages->size() : 0;
  const auto ranks = static_cast<std::size_t>(s.pp);
  return counts > ranks && counts % ranks == 0 ? static_cast<int>(counts / ranks) : 1;
}

Strategy filled(const JobSpec& job) {
  const LayoutSpec& given = job.layout;
  Strategy s;
  s.tp = given.tp.value_or(1);
  s.cp = given.cp.value_or(1);
  s.pp = given.pp.value_or(1);
  if (given.schedule) s.schedule = parsed(*given.schedule, schedule_named);
  s.vpp = given.vpp.value_or(implied_vpp(given, s));
  s.ep = given.ep.value_or(1);
  s.etp = given.etp.value_or(1);
  s.dp = given.dp.value_or(dp_of_world(job, s));
  s.micro_batch = given.micro_batch.value_or(1);
  s.stages = stages_of(job, s);
  s.sequence_parallel = given.sequence_parallel.value_or(s.tp > 1);
  if (given.recompute) s.recompute = parsed(*given.recompute, recompute_named);
  s.zero = given.zero.value_or(1);  // has no effect, and so becomes 0, without data ranks
  s.zero_group = given.zero_group.value_or(s.cp * s.dp);
  if (given.context) s.context = parsed(*given.context, context_named);
  s.overlap = given.overlap ? parsed(*given.overlap, overlap_named) : default_overlap(s);
  if (given.rank_order) s.rank_order = *given.rank_order;
  return normalised(std::move(s));
}

// Without it, how many sequences a rank takes at once would be a guess that decides everything.
Diagnostic missing_micro_batch(const JobSpec& job) {
  Diagnostic error{job.file,
                   {},
                   "layout.micro_batch is missing",
                   {},
                   "add layout: {micro_batch: 1}; only search chooses it"};
  if (const auto layout = job.places.find("layout"); layout != job.places.end()) {
    error.file = layout->second.file;
    error.where = layout->second.where;
  }
  return error;
}

}  // namespace

Result<Strategy> complete_layout(const JobSpec& job) {
  Strategy strategy = filled(job);
  Errors errors;
  if (!job.layout.micro_batch) errors.push_back(missing_micro_batch(job));
  const Errors broken = rule_errors(job, strategy);
  errors.insert(errors.end(), broken.begin(), broken.end());
  if (!errors.empty()) return errors;
  return strategy;
}

std::vector<std::string> defaulted_fields(const JobSpec& job) {
  const LayoutSpec& given = job.layout;
  std::vector<std::string> fields;
  const auto note = [&](const char* field, bool is_given) {
    if (!is_given) fields.emplace_back(field);
  };
  note("tp", given.tp.has_value());
  note("cp", given.cp.has_value());
  note("pp", given.pp.has_value());
  note("vpp", given.vpp.has_value());
  note("dp", given.dp.has_value());
  note("ep", given.ep.has_value());
  note("etp", given.etp.has_value());
  note("stages", given.stages_mode || given.stages);
  note("schedule", given.schedule.has_value());
  note("sequence_parallel", given.sequence_parallel.has_value());
  note("recompute", given.recompute.has_value());
  note("zero", given.zero.has_value());
  note("zero_group", given.zero_group.has_value());
  note("context", given.context.has_value());
  note("overlap", given.overlap.has_value());
  note("rank_order", given.rank_order.has_value());
  return fields;
}

}  // namespace mega::planner
