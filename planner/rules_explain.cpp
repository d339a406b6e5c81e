// What a broken rule says. Keys as the user writes them, the values, the derived value.

#include <algorithm>

#include "ir/base/text.h"
#include "planner/rules_nearest.h"
#include "planner/rules_table.h"

namespace mega::planner::explain {
namespace {

const std::vector<std::string> kWorld = {"layout.tp", "layout.cp", "layout.pp", "layout.dp"};

std::string joined(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a + b;
  return a + ", or " + b;
}

// "layout.tp 3 * cp 1 * pp 1"
std::string product(const Facts& facts, const std::vector<std::string>& keys) {
  std::string out;
  for (const std::string& key : keys) {
    const bool is_first = out.empty();
    const std::string name = is_first ? key : key.substr(key.find('.') + 1);
    out += (is_first ? "" : " * ") + name + " " + number(value_of(facts, key));
  }
  return out;
}

std::string usable_tp(const Facts& facts) {
  std::vector<std::string> usable;
  for (std::int64_t tp = 1; tp <= facts.heads; ++tp) {
    const bool splits_kv = facts.kv_heads % tp == 0 || tp % facts.kv_heads == 0;
    if (facts.heads % tp == 0 && splits_kv) usable.push_back(number(tp));
  }
  return any_of(usable);
}

// Less tensor and more pipeline parallelism on as many ranks: pp has no head constraint.
std::string trade_tp_for_pp(const Facts& facts) {
  const Strategy& s = facts.strategy;
  const auto most = std::min<std::int64_t>(s.tp - 1, facts.heads);
  for (int tp = static_cast<int>(most); tp >= 1; --tp) {
    const std::int64_t pp = std::int64_t{s.pp} * s.tp / tp;
    if (s.tp % tp != 0 || pp > kManyRanks / 2) continue;
    Facts traded = facts;
    traded.strategy.tp = tp;
    traded.strategy.pp = static_cast<int>(pp);
    if (all_hold(traded, traded.strategy)) {
      return "layout.tp: " + number(tp) + " with layout.pp: " + number(pp);
    }
  }
  return {};
}

std::int64_t batch_step(const Facts& facts) {
  return std::int64_t{facts.strategy.micro_batch} * facts.strategy.dp;
}

}  // namespace

RuleResult degrees(const Facts& facts) {
  RuleResult result;
  std::vector<std::string> wrong;
  for (const char* key : {"layout.tp", "layout.cp", "layout.pp", "layout.vpp", "layout.dp",
                          "layout.ep", "layout.etp", "layout.micro_batch"}) {
    if (value_of(facts, key) >= 1) continue;
    result.keys.emplace_back(key);
    wrong.push_back(shown(facts, key));
    result.nearest = joined(result.nearest, std::string(key) + ": 1");
  }
  result.message = join(wrong, ", ") + " must be at least 1";
  return result;
}

RuleResult world(const Facts& facts) {
  RuleResult result;
  result.keys = kWorld;
  result.keys.insert(result.keys.end(), {"cluster.gpus", "cluster.nodes", "cluster.gpus_per_node"});
  Facts one = facts;
  one.strategy.dp = 1;
  const std::int64_t model_ranks = ranks_of(one.strategy);
  const std::string gpus = number(facts.gpus);
  if (facts.gpus % model_ranks != 0) {
    result.message = product(facts, {"layout.tp", "layout.cp", "layout.pp"}) + " = " +
                     number(model_ranks) + " does not divide the " + gpus + " GPUs of the cluster";
    result.nearest = nearest(facts, "world", {"layout.tp", "layout.pp", "cluster.nodes"});
    return result;
  }
  result.message = product(facts, kWorld) + " = " + number(ranks_of(facts.strategy)) +
                   ", but the cluster has " + gpus + " GPUs";
  result.nearest = "layout.dp: " + number(facts.gpus / model_ranks);
  return result;
}

RuleResult heads(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.tp", "model.heads", "model.kv_heads"};
  result.message = shown(facts, "layout.tp") + " does not divide " + shown(facts, "model.heads") +
                   "; usable: " + usable_tp(facts) + " (pp has no head constraint)";
  result.nearest = joined(nearest(facts, "heads", {"layout.tp"}), trade_tp_for_pp(facts));
  return result;
}

RuleResult kv_heads(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.tp", "model.kv_heads", "model.heads"};
  result.message =
      "neither of " + shown(facts, "layout.tp") + " and " + shown(facts, "model.kv_heads") +
      " divides the other; usable: " + usable_tp(facts) + " (pp has no head constraint)";
  result.nearest = joined(nearest(facts, "kv_heads", {"layout.tp"}), trade_tp_for_pp(facts));
  return result;
}

RuleResult ffn_hidden(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.tp", "model.ffn_hidden"};
  result.message =
      shown(facts, "layout.tp") + " does not divide " + shown(facts, "model.ffn_hidden");
  result.nearest = nearest(facts, "ffn_hidden", {"layout.tp"});
  return result;
}

RuleResult sequence_parallel(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.sequence_parallel", "layout.tp", "layout.cp", "training.sequence_length"};
  const Strategy& s = facts.strategy;
  const bool whole = facts.sequence_length % s.cp == 0;
  const std::string length = shown(facts, "training.sequence_length");
  if (!whole) {
    result.message = shown(facts, "layout.cp") + " does not divide " + length;
  } else {
    result.message = "sequence_parallel splits " + length + " / cp " + number(s.cp) + " = " +
                     number(facts.sequence_length / s.cp) + " tokens over " +
                     shown(facts, "layout.tp") + ", which does not divide them";
    result.nearest = "layout.sequence_parallel: false";
  }
  result.nearest = joined(result.nearest, nearest(facts, "sequence_parallel",
                                                  {"training.sequence_length", "layout.tp"}));
  return result;
}

RuleResult max_position(const Facts& facts) {
  RuleResult result;
  result.keys = {"training.sequence_length", "model.max_position"};
  result.message = shown(facts, "training.sequence_length") + " is longer than the " +
                   shown(facts, "model.max_position") + " of the learned positions";
  result.nearest = "training.sequence_length: " + number(facts.position_rows) +
                   ", or model.max_position: " + number(facts.sequence_length);
  return result;
}

RuleResult global_batch(const Facts& facts) {
  RuleResult result;
  result.keys = {"training.global_batch", "layout.micro_batch", "layout.dp", "cluster.nodes"};
  const std::int64_t step = batch_step(facts);
  result.message = shown(facts, "training.global_batch") + " is no multiple of " +
                   product(facts, {"layout.micro_batch", "layout.dp"}) + " = " + number(step) +
                   " (remainder " + number(facts.global_batch % step) + ")";
  std::vector<std::string> free = {"training.global_batch", "layout.micro_batch"};
  if (facts.gpus > 0 && facts.gpus == facts.nodes * facts.gpus_per_node && !facts.dp_given) {
    free.emplace_back("cluster.nodes");
  }
  result.nearest = nearest(facts, "global_batch", free);
  return result;
}

RuleResult micro_batches(const Facts& facts) {
  RuleResult result;
  const Strategy& s = facts.strategy;
  const std::int64_t count = facts.global_batch / batch_step(facts);
  result.keys = {"training.global_batch", "layout.micro_batch", "layout.dp"};
  result.message = "training.global_batch " + number(facts.global_batch) + " makes " +
                   number(count) + " micro-batches of layout.micro_batch " + number(s.micro_batch) +
                   " on each of layout.dp " + number(s.dp) + "; at most " +
                   number(kMostMicroBatches) + " a step are supported";
  result.nearest = "training.global_batch: " + number(kMostMicroBatches * batch_step(facts));
  return result;
}

RuleResult interleaved_stages(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.vpp", "layout.pp"};
  result.message = shown(facts, "layout.vpp") + " needs more than " + shown(facts, "layout.pp");
  result.nearest = nearest(facts, "interleaved_stages", {"layout.vpp", "layout.pp"});
  return result;
}

RuleResult interleaved_micro_batches(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.vpp", "layout.pp", "training.global_batch", "layout.micro_batch",
                 "layout.dp"};
  result.message = shown(facts, "layout.vpp") + " (interleaved) needs at least as many " +
                   "micro-batches as " + shown(facts, "layout.pp") + ", but " +
                   shown(facts, "training.global_batch") + " / (" +
                   product(facts, {"layout.micro_batch", "layout.dp"}) +
                   ") = " + number(facts.global_batch / batch_step(facts));
  result.nearest = nearest(facts, "interleaved_micro_batches",
                           {"training.global_batch", "layout.micro_batch", "layout.vpp"});
  return result;
}

RuleResult schedule_vpp(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.schedule", "layout.vpp"};
  const Strategy& s = facts.strategy;
  const std::string needed = is_folded(s.schedule) ? "2" : "1";
  result.message = "layout.schedule " + to_string(s.schedule) + " takes layout.vpp " + needed +
                   ", but it is " + number(s.vpp);
  result.nearest = joined("layout.vpp: " + needed, "layout.schedule: 1f1b");
  return result;
}

RuleResult dualpipe_micro_batches(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.schedule", "layout.pp", "training.global_batch", "layout.micro_batch",
                 "layout.dp"};
  result.message = "layout.schedule dualpipe_v needs at least twice as many micro-batches as " +
                   shown(facts, "layout.pp") + ", but " + shown(facts, "training.global_batch") +
                   " / (" + product(facts, {"layout.micro_batch", "layout.dp"}) +
                   ") = " + number(facts.global_batch / batch_step(facts));
  result.nearest = joined("layout.schedule: zb_v",
                          nearest(facts, "dualpipe_micro_batches",
                                  {"training.global_batch", "layout.micro_batch", "layout.pp"}));
  return result;
}

RuleResult layers(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.pp", "layout.vpp", "model.layers"};
  const Strategy& s = facts.strategy;
  result.message = product(facts, {"layout.pp", "layout.vpp"}) + " = " +
                   number(std::int64_t{s.pp} * s.vpp) + " virtual stages need a layer each, but " +
                   shown(facts, "model.layers") + " is less";
  result.nearest = nearest(facts, "layers", {"layout.pp", "layout.vpp"});
  return result;
}

RuleResult even_stages(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.stages", "model.layers", "layout.pp", "layout.vpp"};
  const std::int64_t stages = std::int64_t{facts.strategy.pp} * facts.strategy.vpp;
  result.message = "layout.stages even: " + shown(facts, "model.layers") + " over " +
                   product(facts, {"layout.pp", "layout.vpp"}) + " = " + number(stages) +
                   " stages leaves a remainder of " + number(facts.layers % stages);
  result.nearest = "layout.stages: auto";
  if (stages > facts.layers || stages > 64) return result;
  std::vector<std::string> counts;
  for (const int count : even_cut(static_cast<int>(facts.layers), static_cast<int>(stages))) {
    counts.push_back(number(count));
  }
  result.nearest += ", or layout.stages: [" + join(counts, ", ") + "]";
  return result;
}

RuleResult stage_counts(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.stages", "model.layers", "layout.pp", "layout.vpp"};
  const Strategy& s = facts.strategy;
  std::int64_t sum = 0;
  for (const int count : s.stages) sum += count;
  const auto entries = static_cast<std::int64_t>(s.stages.size());
  const std::int64_t stages = std::int64_t{s.pp} * s.vpp;
  std::vector<std::string> wrong;
  if (entries != stages) {
    wrong.push_back("has " + number(entries) + " counts for " +
                    product(facts, {"layout.pp", "layout.vpp"}) + " = " + number(stages) +
                    " stages");
  }
  if (sum != facts.layers) {
    wrong.push_back("sums to " + number(sum) + ", not to " + shown(facts, "model.layers"));
  }
  result.message = "layout.stages " + join(wrong, "; ");
  result.nearest = "layout.stages: auto";
  return result;
}

RuleResult zero_group(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.zero_group", "layout.dp", "layout.cp"};
  result.message = shown(facts, "layout.zero_group") + " is no cp * d with d a divisor of dp (" +
                   product(facts, {"layout.cp", "layout.dp"}) + ")";
  result.nearest = nearest(facts, "zero_group", {"layout.zero_group"});
  return result;
}

RuleResult split_backward(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.zero", "layout.schedule"};
  const Strategy& s = facts.strategy;
  result.message = "layout.zero " + number(s.zero) + " reduces gradients inside backward, which " +
                   "layout.schedule " + to_string(s.schedule) + " splits in two passes";
  Strategy whole = s;
  whole.schedule = ScheduleKind::OneFOneB;
  result.nearest = "layout.zero: 1";
  if (all_hold(facts, whole)) result.nearest = joined(result.nearest, "layout.schedule: 1f1b");
  return result;
}

RuleResult not_built(const Facts& facts) {
  RuleResult result;
  const Strategy& s = facts.strategy;
  const Strategy built;
  std::vector<std::string> wrong;
  const auto refuse = [&](const std::string& key, bool refused, const std::string& value,
                          const std::string& instead) {
    if (!refused) return;
    result.keys.push_back("layout." + key);
    wrong.push_back("layout." + key + " " + value);
    // All of them must change.
    result.nearest += (result.nearest.empty() ? "" : ", ") + ("layout." + key) + ": " + instead;
  };
  refuse("recompute", s.recompute.layers != 0, to_string(s.recompute), "full");
  Overlap later = s.overlap;
  later.gradient_reduce = later.parameter_gather = later.pipeline = false;
  Overlap known = s.overlap;
  known.tensor = known.expert = false;
  refuse("overlap", later != Overlap(), join(names(later), "+"),
         "[" + join(names(known), ", ") + "]");
  result.message = join(wrong, ", ") + (wrong.size() == 1 ? " is" : " are") + " not built yet";
  return result;
}

}  // namespace mega::planner::explain
