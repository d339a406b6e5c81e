#include "planner/output/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace mega::planner {
namespace {

using Json = nlohmann::ordered_json;

// At most nine decimals, and no more digits than a double keeps: 15.
double rounded(double value) {
  constexpr int kDecimals = 9;
  constexpr int kDigits = 15;
  if (value == 0 || !std::isfinite(value)) return 0;
  const int whole = std::max(0, static_cast<int>(std::floor(std::log10(std::fabs(value)))) + 1);
  const double scale = std::pow(10.0, std::clamp(kDigits - whole, 0, kDecimals));
  return std::round(value * scale) / scale;
}

Json seconds(std::int64_t ns) {
  return rounded(static_cast<double>(ns) / 1e9);
}

std::string dump(const Json& json) {
  // Names come from users' files: broken UTF-8 in one must not break the document.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json layout_json(const Strategy& s) {
  return Json{{"tp", s.tp},
              {"cp", s.cp},
              {"pp", s.pp},
              {"vpp", s.vpp},
              {"dp", s.dp},
              {"ep", s.ep},
              {"etp", s.etp},
              {"micro_batch", s.micro_batch},
              {"schedule", to_string(s.schedule)},
              {"sequence_parallel", s.sequence_parallel},
              {"recompute", to_string(s.recompute)},
              {"zero", s.zero},
              {"zero_group", s.zero_group},
              {"context", to_string(s.context)},
              {"overlap", names(s.overlap)},
              {"rank_order", s.rank_order},
              {"stages", s.stages}};
}

Json time_json(const Candidate& candidate) {
  Json time = Json::object();
  for (const TimeTerm& term : time_terms()) {
    Json& value = time[std::string(term.name) + "_s"];
    if (candidate.has_times) value = seconds(candidate.evaluation.time.*term.ns);
  }
  return time;
}

Json memory_json(const Estimate& estimate) {
  const Candidate& candidate = estimate.candidate;
  Json memory;
  memory["peak_bytes"] = peak(candidate.evaluation).count();
  memory["capacity_bytes"] =
      candidate.capacity > Bytes(0) ? Json(candidate.capacity.count()) : Json();
  memory["fits"] = candidate.fits;
  memory["fit_probability"] = nullptr;  // no spread is modelled
  memory["recipe"] = "native";
  memory["peak_at"] = candidate.evaluation.peak_at;
  if (!estimate.has_stages) return memory;
  Json& stages = memory["per_stage"] = Json::array();
  for (const StageMemory& stage : candidate.evaluation.memory) {
    Json row;
    row["stage"] = stage.stage;
    for (const MemoryTerm& term : memory_terms())
      row[std::string(term.name) + "_bytes"] = (stage.*term.bytes).count();
    row["total_bytes"] = stage.total.count();
    stages.push_back(std::move(row));
  }
  return memory;
}

Json candidate_json(const Estimate& estimate) {
  const Candidate& candidate = estimate.candidate;
  const Rates rates = rates_of(candidate);
  const auto timed = [&](double value) {
    return candidate.has_times ? Json(rounded(value)) : Json();
  };
  Json json;
  json["layout"] = layout_json(candidate.strategy);
  json["world"] = candidate.world;
  json["micro_batches"] = candidate.micro_batches;
  json["step_time_s"] = candidate.has_times ? seconds(candidate.evaluation.step_ns) : Json();
  json["step_time_interval_s"] = nullptr;  // no spread is modelled
  json["tokens_per_s_per_gpu"] = timed(rates.tokens_per_s_per_gpu);
  json["model_tflops_per_gpu"] = timed(rates.model_tflops_per_gpu);
  json["hardware_tflops_per_gpu"] = timed(rates.hardware_tflops_per_gpu);
  json["mfu"] = timed(rates.mfu);
  json["parameters"] = candidate.parameters;
  json["parameters_allocated"] = candidate.parameters_allocated;
  json["time"] = time_json(candidate);
  json["memory"] = memory_json(estimate);
  json["conventions"] = {{"flops", estimate.flops},
                         {"bytes_per_parameter", estimate.bytes_per_parameter}};
  return json;
}

Json counts_json(const SearchCounts& counts) {
  return Json{{"space", counts.space},
              {"illegal", counts.illegal},
              {"over_memory", counts.over_memory},
              {"bounded", counts.bounded},
              {"evaluated", counts.evaluated},
              {"proven_optimal", counts.proven_optimal},
              {"gap", rounded(counts.gap)}};
}

}  // namespace

std::string json_of(const Estimate& estimate) {
  return dump(candidate_json(estimate));
}

std::string json_of(const SearchResult& result, const std::vector<Estimate>& top) {
  Json json;
  json["best"] = top.empty() ? Json() : candidate_json(top[0]);
  json["top"] = Json::array();
  for (const Estimate& estimate : top) json["top"].push_back(candidate_json(estimate));
  json["search"] = counts_json(result.counts);
  json["infeasible"] = Json::array();
  for (const Infeasible& reason : result.infeasible) {
    json["infeasible"].push_back(
        {{"rule", reason.rule}, {"message", reason.message}, {"nearest", reason.nearest}});
  }
  // The front of time against memory and GPUs, and what a faster resource would give: not explored.
  json["pareto"] = Json::array();
  json["sensitivity"] = Json::array();
  return dump(json);
}

std::string json_of(const Explanation& explanation) {
  Json json;
  json["layouts"] = Json::array();
  json["rules"] = Json::array();
  for (std::size_t i = 0; i < explanation.layouts.size(); ++i) {
    const Explained& layout = explanation.layouts[i];
    json["layouts"].push_back(layout.estimate ? candidate_json(*layout.estimate) : Json());
    for (const RuleResult& rule : layout.rules) {
      json["rules"].push_back({{"layout", i},
                               {"rule", rule.rule},
                               {"ok", rule.ok},
                               {"message", rule.message},
                               {"nearest", rule.nearest}});
    }
  }
  json["differences"] = Json::array();
  for (const Difference& difference : explanation.differences) {
    json["differences"].push_back(
        {{"term", difference.term}, {"a", rounded(difference.a)}, {"b", rounded(difference.b)}});
  }
  return dump(json);
}

std::string json_of(const Errors& errors) {
  Json json;
  json["errors"] = Json::array();
  for (const Diagnostic& error : errors) {
    Json notes = Json::array();
    for (const Note& note : error.notes) {
      notes.push_back({{"file", note.file},
                       {"line", note.where.line},
                       {"column", note.where.column},
                       {"message", note.text}});
    }
    json["errors"].push_back({{"file", error.file},
                              {"line", error.where.line},
                              {"column", error.where.column},
                              {"message", error.message},
                              {"notes", std::move(notes)},
                              {"help", error.help}});
  }
  return dump(json);
}

std::string stats_json(const SearchCounts& counts, double wall_seconds) {
  Json json = counts_json(counts);
  json["wall_s"] = rounded(wall_seconds);
  json["strategies_per_s"] =
      rounded(wall_seconds > 0 ? static_cast<double>(counts.space) / wall_seconds : 0);
  return dump(json);
}

}  // namespace mega::planner
