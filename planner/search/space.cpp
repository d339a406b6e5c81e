#include "planner/search/space.h"

#include <algorithm>
#include <optional>

#include "ir/base/text.h"
#include "planner/rules.h"

namespace mega::planner {
namespace {

std::optional<int> to_count(const std::string& text) {
  const std::optional<std::int64_t> value = parse_integer(text);
  if (!value || *value < 0 || *value > 1 << 30) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<int> to_degree(const std::string& text) {
  const std::optional<int> value = to_count(text);
  return value && *value > 0 ? value : std::nullopt;
}

std::optional<bool> to_flag(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::optional<std::string> to_text(const std::string& text) {
  return text;
}

// "gradient_reduce+pipeline" or "none".
std::optional<Overlap> to_overlap(const std::string& text) {
  return text == "none" ? Overlap{} : overlap_named(split(text, '+'));
}

// Collects one field's values: the fixed one, else the allowed ones, else none (all).
class Reader {
 public:
  explicit Reader(const JobSpec& job) : job_(job) {}

  template <class T, class Parse>
  std::vector<T> read(const std::string& field, const std::optional<std::string>& fixed,
                      Parse parse) {
    if (fixed) return parsed<T>("layout." + field, {*fixed}, parse);
    const auto allowed = job_.search.allow.find(field);
    if (allowed == job_.search.allow.end()) return {};
    return parsed<T>("search.allow." + field, allowed->second, parse);
  }
  template <class Parse>
  std::vector<int> read_count(const std::string& field, const std::optional<int>& fixed,
                              Parse parse) {
    if (fixed) return {*fixed};
    return read<int>(field, std::nullopt, parse);
  }

  Errors errors;

 private:
  template <class T, class Parse>
  std::vector<T> parsed(const std::string& key, const std::vector<std::string>& texts,
                        Parse parse) {
    std::vector<T> values;
    for (const std::string& text : texts) {
      if (const std::optional<T> value = parse(text))
        values.push_back(*value);
      else
        refuse(key, text);
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }
  void refuse(const std::string& key, const std::string& text) {
    const auto place = job_.places.find(key);
    Diagnostic error;
    error.file = place == job_.places.end() ? job_.file : place->second.file;
    if (place != job_.places.end()) error.where = place->second.where;
    error.message = quote(text) + " is no value of " + key;
    errors.push_back(std::move(error));
  }

  const JobSpec& job_;
};

std::vector<int> divisors(std::int64_t n) {
  std::vector<int> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(static_cast<int>(d));
    if (d * d != n) high.push_back(static_cast<int>(n / d));
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::vector<int> up_to(std::int64_t n) {
  std::vector<int> result;
  for (int i = 1; i <= n; ++i) result.push_back(i);
  return result;
}

const std::vector<int>& or_else(const std::vector<int>& given, const std::vector<int>& all) {
  return given.empty() ? all : given;
}

// Walks the fields in the order of Strategy: that order is the canonical one.
class Walk {
 public:
  Walk(const JobSpec& job, const Choices& choices,
       const std::function<void(const Strategy&)>& visit)
      : job_(job), choices_(choices), visit_(visit) {
    world_ = job.cluster ? job.cluster->gpus : 1;
    divisors_ = divisors(world_);
  }

  void degrees() {
    const std::vector<int> one = {1};
    for (const int tp : or_else(choices_.tp, divisors_))
      for (const int cp : or_else(choices_.cp, one))
        for (const int pp : or_else(choices_.pp, divisors_)) {
          Strategy strategy;
          strategy.tp = tp;
          strategy.cp = cp;
          strategy.pp = pp;
          virtual_stages(strategy);
        }
  }

 private:
  void virtual_stages(Strategy strategy) {
    const std::vector<int> vpp =
        strategy.pp > 1 ? up_to(std::max(1, job_.model.layers / strategy.pp)) : std::vector{1};
    // A dp that the world does not leave whole is visited too: the rules then say why.
    const std::int64_t used = std::int64_t{strategy.tp} * strategy.cp * strategy.pp;
    const std::vector<int> dp = {static_cast<int>(std::max<std::int64_t>(1, world_ / used))};
    for (const int v : or_else(choices_.vpp, vpp))
      for (const int d : or_else(choices_.dp, dp))
        for (const int ep : or_else(choices_.ep, expert_degrees()))
          for (const int etp : or_else(choices_.etp, expert_degrees())) {
            strategy.vpp = v;
            strategy.dp = d;
            strategy.ep = ep;
            strategy.etp = etp;
            micro_batches(strategy);
          }
  }

  const std::vector<int>& expert_degrees() const {
    static const std::vector<int> kOne = {1};
    return job_.model.moe ? divisors_ : kOne;
  }

  void micro_batches(Strategy strategy) {
    const std::int64_t batch = job_.training.global_batch;
    const std::vector<int> all =
        batch % strategy.dp == 0 ? divisors(batch / strategy.dp) : std::vector{1};
    for (const int micro_batch : or_else(choices_.micro_batch, all)) {
      strategy.micro_batch = micro_batch;
      stages(strategy);
      flags(strategy);
    }
  }

  void stages(Strategy& strategy) const {
    if (job_.layout.stages) {
      strategy.stages = *job_.layout.stages;
    } else if (job_.layout.stages_mode == "even") {
      const int count = strategy.pp * strategy.vpp;
      strategy.stages.assign(static_cast<std::size_t>(count), job_.model.layers / count);
    }
  }

  // All combinations of the remaining fields. Those that mean the same become equal by
  // normalising and are visited once.
  void flags(const Strategy& strategy) {
    std::vector<Strategy> all = {strategy};
    const auto cross = [&all](const auto& values, auto assign) {
      std::vector<Strategy> product;
      for (const Strategy& before : all)
        for (const auto& value : values) assign(product.emplace_back(before), value);
      all = std::move(product);
    };
    cross(schedules(strategy), [](Strategy& s, ScheduleKind kind) { s.schedule = kind; });
    cross(choices_.sequence_parallel, [](Strategy& s, bool on) { s.sequence_parallel = on; });
    cross(choices_.recompute, [](Strategy& s, const Recompute& r) { s.recompute = r; });
    cross(choices_.zero, [](Strategy& s, int zero) { s.zero = zero; });
    cross(zero_groups(strategy), [](Strategy& s, int group) { s.zero_group = group; });
    cross(choices_.context, [](Strategy& s, ContextKind kind) { s.context = kind; });
    cross(choices_.overlap, [](Strategy& s, const Overlap& o) { s.overlap = o; });
    cross(choices_.rank_order, [](Strategy& s, const std::string& o) { s.rank_order = o; });
    for (Strategy& each : all) each = normalised(std::move(each));
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (const Strategy& each : all) visit_(each);
  }

  // All data ranks where nothing else is said.
  std::vector<int> zero_groups(const Strategy& strategy) const {
    return or_else(choices_.zero_group, {strategy.cp * strategy.dp});
  }

  // Where the user leaves the schedule open, those that take this vpp.
  std::vector<ScheduleKind> schedules(const Strategy& strategy) const {
    if (!choices_.schedule.empty()) return choices_.schedule;
    std::vector<ScheduleKind> all;
    for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::Gpipe, ScheduleKind::ZbH1,
                                    ScheduleKind::ZbV, ScheduleKind::DualpipeV}) {
      if (takes_vpp(kind, strategy.vpp)) all.push_back(kind);
    }
    return all;
  }

  const JobSpec& job_;
  const Choices& choices_;
  const std::function<void(const Strategy&)>& visit_;
  std::int64_t world_ = 1;
  std::vector<int> divisors_;
};

std::vector<Overlap> built_overlaps() {
  std::vector<Overlap> all;
  for (const bool gradient_reduce : {false, true})
    for (const bool parameter_gather : {false, true})
      for (const bool pipeline : {false, true}) {
        Overlap overlap;
        overlap.gradient_reduce = gradient_reduce;
        overlap.parameter_gather = parameter_gather;
        overlap.pipeline = pipeline;
        all.push_back(overlap);
      }
  return all;
}

std::optional<std::string> as_text(const std::optional<bool>& flag) {
  if (!flag) return std::nullopt;
  return *flag ? "true" : "false";
}
std::optional<std::string> as_text(const std::optional<std::vector<std::string>>& names) {
  if (!names) return std::nullopt;
  return names->empty() ? "none" : join(*names, "+");
}

template <class T>
void default_to(std::vector<T>& values, std::vector<T> all) {
  if (values.empty()) values = std::move(all);
}

}  // namespace

Result<Choices> choices_of(const JobSpec& job) {
  const LayoutSpec& fixed = job.layout;
  Reader reader(job);
  Choices choices;
  choices.tp = reader.read_count("tp", fixed.tp, to_degree);
  choices.cp = reader.read_count("cp", fixed.cp, to_degree);
  choices.pp = reader.read_count("pp", fixed.pp, to_degree);
  choices.vpp = reader.read_count("vpp", fixed.vpp, to_degree);
  choices.dp = reader.read_count("dp", fixed.dp, to_degree);
  choices.ep = reader.read_count("ep", fixed.ep, to_degree);
  choices.etp = reader.read_count("etp", fixed.etp, to_degree);
  choices.micro_batch = reader.read_count("micro_batch", fixed.micro_batch, to_degree);
  choices.zero = reader.read_count("zero", fixed.zero, to_count);
  choices.zero_group = reader.read_count("zero_group", fixed.zero_group, to_degree);
  choices.schedule = reader.read<ScheduleKind>("schedule", fixed.schedule, schedule_named);
  choices.sequence_parallel =
      reader.read<bool>("sequence_parallel", as_text(fixed.sequence_parallel), to_flag);
  choices.recompute = reader.read<Recompute>("recompute", fixed.recompute, recompute_named);
  choices.context = reader.read<ContextKind>("context", fixed.context, context_named);
  choices.overlap = reader.read<Overlap>("overlap", as_text(fixed.overlap), to_overlap);
  choices.rank_order = reader.read<std::string>("rank_order", fixed.rank_order, to_text);
  if (!reader.errors.empty()) return reader.errors;

  default_to(choices.sequence_parallel, {false, true});
  default_to(choices.recompute, {Recompute{}});
  default_to(choices.zero, {0, 1, 2, 3});
  default_to(choices.context, {ContextKind::Ring});
  default_to(choices.overlap, built_overlaps());
  default_to(choices.rank_order, {Strategy{}.rank_order});
  return choices;
}

void for_each_combination(const JobSpec& job, const Choices& choices,
                          const std::function<void(const Strategy&)>& visit) {
  Walk(job, choices, visit).degrees();
}

}  // namespace mega::planner
