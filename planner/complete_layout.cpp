#include "planner/complete_layout.h"

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

class Completion {
 public:
  explicit Completion(const JobSpec& job) : job_(job) {}

  CompletedLayout run() {
    const LayoutSpec& given = job_.layout;
    Strategy& s = layout_.strategy;
    s.tp = take("tp", given.tp, 1);
    s.cp = take("cp", given.cp, 1);
    s.pp = take("pp", given.pp, 1);
    s.vpp = take("vpp", given.vpp, 1);
    s.ep = take("ep", given.ep, 1);
    s.etp = take("etp", given.etp, 1);
    s.dp = take("dp", given.dp, dp_of_world());
    s.micro_batch = given.micro_batch.value_or(1);
    s.sequence_parallel = take("sequence_parallel", given.sequence_parallel, s.tp > 1);
    s.schedule = parsed(take("schedule", given.schedule, std::string("1f1b")), schedule_named);
    s.recompute = parsed(take("recompute", given.recompute, std::string("none")), recompute_named);
    s.context = parsed(take("context", given.context, std::string("ring")), context_named);
    s.zero = take("zero", given.zero, 0);
    s.zero_group = take("zero_group", given.zero_group, s.cp * s.dp);
    s.rank_order = take("rank_order", given.rank_order, Strategy().rank_order);
    s.overlap = parsed(take("overlap", given.overlap, default_overlap()), overlap_named);
    stages();
    s = normalised(std::move(s));
    return std::move(layout_);
  }

 private:
  template <class T>
  T take(const char* field, const std::optional<T>& given, T otherwise) {
    if (!given) layout_.defaulted.emplace_back(field);
    return given.value_or(std::move(otherwise));
  }

  // Where the world can't be filled, the rule `world` will say so.
  int dp_of_world() const {
    const Strategy& s = layout_.strategy;
    if (!job_.cluster) return 1;
    std::int64_t left = job_.cluster->gpus;
    for (const int degree : {s.tp, s.cp, s.pp}) left /= degree;
    return static_cast<int>(std::max<std::int64_t>(1, left));
  }

  std::vector<std::string> default_overlap() const {
    std::vector<std::string> overlap;
    if (layout_.strategy.dp > 1) overlap.emplace_back("gradient_reduce");
    if (layout_.strategy.pp > 1) overlap.emplace_back("pipeline");
    return overlap;
  }

  void stages() {
    Strategy& s = layout_.strategy;
    if (job_.layout.stages) {
      s.stages = *job_.layout.stages;
    } else if (job_.layout.stages_mode == "even") {
      const std::int64_t count = std::int64_t{s.pp} * s.vpp;
      // A remainder is the business of the rule `even_stages`.
      if (job_.model.layers % count == 0) {
        s.stages.assign(static_cast<std::size_t>(count),
                        static_cast<int>(job_.model.layers / count));
      }
    } else if (!job_.layout.stages_mode) {
      layout_.defaulted.emplace_back("stages");
    }
  }

  const JobSpec& job_;
  CompletedLayout layout_;
};

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

Result<CompletedLayout> complete_layout(const JobSpec& job) {
  CompletedLayout layout = Completion(job).run();
  Errors errors;
  if (!job.layout.micro_batch) errors.push_back(missing_micro_batch(job));
  const Errors broken = rule_errors(job, layout.strategy);
  errors.insert(errors.end(), broken.begin(), broken.end());
  if (!errors.empty()) return errors;
  return layout;
}

}  // namespace mega::planner
