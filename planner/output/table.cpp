#include "planner/output/table.h"

#include <algorithm>

#include "ir/base/text.h"
#include "planner/output/text_table.h"

namespace mega::planner {
namespace {

constexpr int kIndent = 12;  // of what stands beside a heading

std::string line(const std::string& heading, const std::string& text) {
  std::string start = heading;
  start.resize(kIndent, ' ');
  return wrapped(start + text, kIndent);
}

std::string time_text(std::int64_t ns) {
  return to_string(Seconds(static_cast<double>(ns) / 1e9));
}

// One unit for a whole table, by its largest figure.
struct ByteUnit {
  const char* name;
  double bytes;
};
ByteUnit unit_for(Bytes largest) {
  constexpr ByteUnit kMiB = {"MiB", 1 << 20}, kGiB = {"GiB", 1 << 30};
  return static_cast<double>(largest.count()) < kGiB.bytes ? kMiB : kGiB;
}
std::string in_unit(Bytes bytes, const ByteUnit& unit) {
  return with_decimals(static_cast<double>(bytes.count()) / unit.bytes, 3);
}

std::string layout_text(const Strategy& s) {
  const std::vector<std::pair<const char*, int>> degrees = {
      {"tp", s.tp}, {"cp", s.cp}, {"pp", s.pp},   {"vpp", s.vpp},
      {"dp", s.dp}, {"ep", s.ep}, {"etp", s.etp}, {"micro_batch", s.micro_batch}};
  std::string text;
  for (const auto& [name, degree] : degrees)
    text += std::string(text.empty() ? "" : ", ") + name + " " + std::to_string(degree);
  text += ", schedule " + to_string(s.schedule);
  text += std::string(", sequence_parallel ") + (s.sequence_parallel ? "true" : "false");
  text += ", recompute " + to_string(s.recompute) + ", zero " + std::to_string(s.zero);
  const std::vector<std::string> overlaps = names(s.overlap);
  return text + ", overlap " + (overlaps.empty() ? "none" : join(overlaps, "+"));
}

// "7 8 8 7 layers"; equal neighbours as "4 x 12".
std::string stages_text(const std::vector<int>& stages) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t end = i + 1;
    while (end < stages.size() && stages[end] == stages[i]) ++end;
    constexpr std::size_t kFewEnoughToWriteOut = 2;
    if (end - i <= kFewEnoughToWriteOut) {
      parts.insert(parts.end(), end - i, std::to_string(stages[i]));
    } else {
      parts.push_back(std::to_string(end - i) + " x " + std::to_string(stages[i]));
    }
    i = end;
  }
  return join(parts, ", ") + " layers";
}

std::string time_table(const Candidate& candidate) {
  const Evaluation& evaluation = candidate.evaluation;
  TextTable table({"time of a step", "", "share"});
  for (const TimeTerm& term : time_terms()) {
    const std::int64_t ns = evaluation.time.*term.ns;
    if (ns == 0) continue;
    const double share = evaluation.step_ns > 0
                             ? static_cast<double>(ns) / static_cast<double>(evaluation.step_ns)
                             : 0;
    table.add({std::string("  ") + term.label, time_text(ns), percent(share)});
  }
  return table.print();
}

bool is_alike(const StageMemory& a, const StageMemory& b) {
  StageMemory moved = a;
  moved.stage = b.stage;
  return moved == b;
}

// Equal neighbours share a line: a deep pipeline's middle is all the same.
std::string memory_table(const std::vector<StageMemory>& stages) {
  Bytes largest;
  for (const StageMemory& stage : stages) largest = std::max(largest, stage.total);
  const ByteUnit unit = unit_for(largest);
  TextTable table({std::string(unit.name) + ", stage", "params", "grads", "optim", "activ", "temp",
                   "comm", "over", "total"});
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t end = i + 1;
    while (end < stages.size() && is_alike(stages[i], stages[end])) ++end;
    std::string name = "  " + std::to_string(stages[i].stage);
    if (end - i > 1) name += "-" + std::to_string(stages[end - 1].stage);
    std::vector<std::string> row = {name};
    for (const MemoryTerm& term : memory_terms())
      row.push_back(in_unit(stages[i].*term.bytes, unit));
    row.push_back(in_unit(stages[i].total, unit));
    table.add(row);
    i = end;
  }
  return table.print();
}

std::string memory_line(const Candidate& candidate) {
  std::string text = "peak " + to_string(peak(candidate.evaluation));
  if (candidate.capacity > Bytes(0)) {
    text += " of " + to_string(candidate.capacity) + ", margin " + to_string(candidate.margin) +
            (candidate.fits ? ": fits" : ": DOES NOT FIT");
  }
  return line("memory", text + "; " + candidate.evaluation.peak_at);
}

std::string conventions(const Estimate& estimate) {
  return line("FLOPs", estimate.flops) +
         line("bytes", "per parameter " + estimate.bytes_per_parameter);
}

std::string rates_text(const Candidate& candidate) {
  const Rates rates = rates_of(candidate);
  return with_decimals(rates.tokens_per_s_per_gpu, 1) + " tokens/s per GPU, " +
         with_decimals(rates.model_tflops_per_gpu, 3) + " model TFLOP/s per GPU (" +
         with_decimals(rates.hardware_tflops_per_gpu, 3) + " hardware), MFU " + percent(rates.mfu);
}

std::string counts_text(const SearchCounts& counts, bool has_found) {
  const std::int64_t left = counts.space - counts.over_memory - counts.bounded - counts.evaluated;
  std::string text = std::to_string(counts.space) +
                     " legal layouts = " + std::to_string(counts.over_memory) + " over memory + " +
                     std::to_string(counts.bounded) + " bounded + " +
                     std::to_string(counts.evaluated) + " evaluated";
  if (left > 0) text += " + " + std::to_string(left) + " not looked at";
  text += "; " + std::to_string(counts.illegal) + " illegal";
  if (!has_found && counts.proven_optimal) return text;
  return text + "; " +
         (counts.proven_optimal
              ? "optimum proved"
              : "stopped early, at most " + percent(counts.gap) + " from the optimum");
}

std::string top_table(const std::vector<Estimate>& top) {
  const bool has_experts = std::any_of(top.begin(), top.end(), [](const Estimate& estimate) {
    return estimate.candidate.strategy.ep * estimate.candidate.strategy.etp > 1;
  });
  const bool has_schedules = std::any_of(top.begin(), top.end(), [](const Estimate& estimate) {
    return estimate.candidate.strategy.schedule != ScheduleKind::OneFOneB;
  });
  std::vector<std::string> header = {"", "tp", "pp", "vpp", "dp"};
  if (has_experts) header.insert(header.end(), {"ep", "etp"});
  header.insert(header.end(), {"mb", "sp"});
  if (has_schedules) header.emplace_back("schedule");
  header.insert(header.end(), {"step", "MFU", "tokens/s/GPU", "peak"});
  TextTable table(std::move(header));
  int place = 0;
  for (const Estimate& estimate : top) {
    const Candidate& candidate = estimate.candidate;
    const Strategy& s = candidate.strategy;
    const Rates rates = rates_of(candidate);
    std::vector<std::string> row = {std::to_string(++place), std::to_string(s.tp),
                                    std::to_string(s.pp), std::to_string(s.vpp),
                                    std::to_string(s.dp)};
    if (has_experts) row.insert(row.end(), {std::to_string(s.ep), std::to_string(s.etp)});
    row.insert(row.end(), {std::to_string(s.micro_batch), s.sequence_parallel ? "yes" : "no"});
    if (has_schedules) row.push_back(to_string(s.schedule));
    row.insert(row.end(), {time_text(candidate.evaluation.step_ns), percent(rates.mfu),
                           with_decimals(rates.tokens_per_s_per_gpu, 1),
                           to_string(peak(candidate.evaluation))});
    table.add(std::move(row));
  }
  return table.print();
}

std::string rules_text(const std::vector<RuleResult>& rules) {
  std::string text;
  for (const RuleResult& rule : rules) {
    text += wrapped((rule.ok ? "  ok      " : "  BROKEN  ") + rule.rule + ": " + rule.message, 10);
    if (!rule.ok && !rule.nearest.empty())
      text += wrapped("          nearest: " + rule.nearest, 10);
  }
  return text;
}

std::string figure(const std::string& term, double value) {
  if (term.ends_with("_bytes")) return to_string(Bytes(static_cast<std::int64_t>(value)));
  if (term.ends_with("_s")) return to_string(Seconds(value));
  return percent(value);
}

std::string difference_table(const std::vector<Difference>& differences) {
  TextTable table({"term", "A", "B", "B to A"});
  for (const Difference& difference : differences) {
    if (difference.a == 0 && difference.b == 0) continue;
    const std::string change =
        difference.a == 0 ? "new"
                          : with_decimals((difference.b / difference.a - 1) * 100, 1) + " %";
    const bool is_more = difference.a != 0 && difference.b > difference.a;
    table.add({"  " + difference.term, figure(difference.term, difference.a),
               figure(difference.term, difference.b), (is_more ? "+" : "") + change});
  }
  return table.print();
}

}  // namespace

std::string title_of(const JobSpec& job) {
  std::string text = job.model.name;
  if (job.cluster)
    text += " on " + job.cluster->name + ", " + std::to_string(job.cluster->gpus) +
            (job.cluster->gpu.is_cpu ? " ranks" : " GPUs");
  text += "; sequence " + std::to_string(job.training.sequence_length) + ", global batch " +
          std::to_string(job.training.global_batch) + ", " + job.training.precision;
  return wrapped(text, 2);
}

std::string title_of(const Header& header) {
  return wrapped("plan of job " + header.job + "; sequence " +
                     std::to_string(header.sequence_length) + ", global batch " +
                     std::to_string(header.global_batch) + ", " + header.precision,
                 2);
}

std::string table_of(const Estimate& estimate) {
  const Candidate& candidate = estimate.candidate;
  std::string text = line("layout", layout_text(candidate.strategy));
  text += line("stages", stages_text(candidate.strategy.stages));
  if (!estimate.defaulted.empty()) text += line("defaults", join(estimate.defaulted, ", "));
  text += line("world", std::to_string(candidate.world) + " ranks; micro-batches per step: " +
                            std::to_string(candidate.micro_batches));
  text += line("parameters", std::to_string(candidate.parameters) + "; allocated " +
                                 std::to_string(candidate.parameters_allocated));
  if (candidate.has_times) {
    text += line("step", time_text(candidate.evaluation.step_ns) + ", " + rates_text(candidate));
  } else {
    text += line("step", "unknown without a cluster");
  }
  text += memory_line(candidate) + conventions(estimate);
  if (candidate.has_times) text += "\n" + time_table(candidate);
  if (estimate.has_stages) text += "\n" + memory_table(candidate.evaluation.memory);
  return text;
}

std::string table_of(const SearchResult& result, const std::vector<Estimate>& top) {
  std::string text;
  if (!top.empty()) text += top_table(top) + "\nbest\n" + table_of(top[0]) + "\n";
  for (const Infeasible& reason : result.infeasible) {
    text += wrapped("no plan: " + reason.rule + ": " + reason.message, 2);
    if (!reason.nearest.empty()) text += wrapped("  nearest: " + reason.nearest, 2);
  }
  return text + line("search", counts_text(result.counts, !top.empty()));
}

std::string table_of(const Explanation& explanation) {
  std::string text;
  char name = 'A';
  for (const Explained& layout : explanation.layouts) {
    if (!text.empty()) text += "\n";
    text += std::string("layout ") + name++ + "    " + layout.summary + "\n";
    if (layout.estimate) text += table_of(*layout.estimate);
    text += "\nrules\n" + rules_text(layout.rules);
  }
  if (!explanation.differences.empty()) text += "\n" + difference_table(explanation.differences);
  return text;
}

}  // namespace mega::planner
