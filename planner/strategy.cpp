#include "planner/strategy.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "ir/base/check.h"
#include "ir/base/text.h"

namespace mega::planner {
namespace {

template <class Kind>
using Names = std::pair<Kind, std::string_view>;

constexpr std::array<Names<ScheduleKind>, 5> kSchedules = {
    {{ScheduleKind::Gpipe, "gpipe"},
     {ScheduleKind::OneFOneB, "1f1b"},
     {ScheduleKind::ZbH1, "zb_h1"},
     {ScheduleKind::ZbV, "zb_v"},
     {ScheduleKind::DualpipeV, "dualpipe_v"}}};
constexpr std::array<Names<ContextKind>, 3> kContexts = {{{ContextKind::Ring, "ring"},
                                                          {ContextKind::AllGather, "all_gather"},
                                                          {ContextKind::Ulysses, "ulysses"}}};
constexpr std::array<Names<bool Overlap::*>, 5> kOverlaps = {
    {{&Overlap::gradient_reduce, "gradient_reduce"},
     {&Overlap::parameter_gather, "parameter_gather"},
     {&Overlap::tensor, "tensor"},
     {&Overlap::pipeline, "pipeline"},
     {&Overlap::expert, "expert"}}};

template <class Table, class Kind>
std::string name_in(const Table& table, Kind kind) {
  for (const auto& [known, name] : table) {
    if (known == kind) return std::string(name);
  }
  MEGA_CHECK(false, "an enumerator without a name");
}

template <class Table>
auto kind_in(const Table& table, std::string_view name)
    -> std::optional<typename Table::value_type::first_type> {
  for (const auto& [kind, known] : table) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

}  // namespace

int world_size(const Strategy& strategy) {
  return strategy.tp * strategy.cp * strategy.pp * strategy.dp;
}

std::int64_t least_world(const Strategy& s) {
  return s.pp * std::lcm(std::int64_t{s.tp} * s.cp, std::int64_t{s.ep} * s.etp);
}

int micro_batches(const Strategy& strategy, std::int64_t global_batch) {
  const std::int64_t step = std::int64_t{strategy.micro_batch} * strategy.dp;
  MEGA_CHECK(step > 0 && global_batch % step == 0, "global batch " + std::to_string(global_batch) +
                                                       " in steps of " + std::to_string(step));
  return static_cast<int>(global_batch / step);
}

std::string to_string(ScheduleKind kind) {
  return name_in(kSchedules, kind);
}
std::string to_string(ContextKind kind) {
  return name_in(kContexts, kind);
}

std::string to_string(const Recompute& recompute) {
  switch (recompute.kind) {
    case Recompute::Kind::None:
      return "none";
    case Recompute::Kind::Selective:
      return "selective:" + join(recompute.modules, "+");
    case Recompute::Kind::Full:
      return recompute.layers == 0 ? "full" : "full:" + std::to_string(recompute.layers);
  }
  MEGA_CHECK(false, "a kind of recompute without a name");
}

std::vector<std::string> names(const Overlap& overlap) {
  std::vector<std::string> out;
  for (const auto& [flag, name] : kOverlaps) {
    if (overlap.*flag) out.emplace_back(name);
  }
  return out;
}

std::optional<ScheduleKind> schedule_named(std::string_view name) {
  return kind_in(kSchedules, name);
}
std::optional<ContextKind> context_named(std::string_view name) {
  return kind_in(kContexts, name);
}

std::optional<Recompute> recompute_named(std::string_view text) {
  constexpr std::string_view kFull = "full:";
  constexpr std::string_view kSelective = "selective:";
  Recompute recompute;
  if (text == "none") return recompute;
  if (text == "full" || text.starts_with(kFull)) {
    recompute.kind = Recompute::Kind::Full;
    if (text == "full") return recompute;
    const auto layers = parse_integer(text.substr(kFull.size()));
    if (!layers || *layers < 1 || *layers > 1 << 30) return std::nullopt;
    recompute.layers = static_cast<int>(*layers);
    return recompute;
  }
  if (!text.starts_with(kSelective)) return std::nullopt;
  recompute.kind = Recompute::Kind::Selective;
  std::vector<std::string>& modules = recompute.modules;
  modules = split(text.substr(kSelective.size()), '+');
  std::sort(modules.begin(), modules.end());
  modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
  if (modules.front().empty()) return std::nullopt;
  return recompute;
}

std::optional<Overlap> overlap_named(const std::vector<std::string>& names) {
  Overlap overlap;
  for (const std::string& name : names) {
    const auto flag = kind_in(kOverlaps, name);
    if (!flag) return std::nullopt;
    overlap.*(*flag) = true;
  }
  return overlap;
}

std::string summary(const Strategy& strategy) {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : " ") + part; };
  const auto degree = [&](const char* name, int value) {
    if (value != 1) add(name + std::to_string(value));
  };
  degree("tp", strategy.tp);
  degree("cp", strategy.cp);
  degree("pp", strategy.pp);
  degree("vpp", strategy.vpp);
  degree("dp", strategy.dp);
  degree("ep", strategy.ep);
  degree("etp", strategy.etp);
  add("mb" + std::to_string(strategy.micro_batch));
  if (strategy.sequence_parallel) add("sp");
  if (strategy.schedule != ScheduleKind::OneFOneB) add(to_string(strategy.schedule));
  if (strategy.recompute.kind != Recompute::Kind::None) add(to_string(strategy.recompute));
  if (strategy.zero != 0) add("zero" + std::to_string(strategy.zero));
  for (const std::string& name : names(strategy.overlap)) add("+" + name);
  return out;
}

Bytes peak(const Evaluation& evaluation) {
  Bytes most;
  for (const StageMemory& stage : evaluation.memory) most = std::max(most, stage.total);
  return most;
}

}  // namespace mega::planner
