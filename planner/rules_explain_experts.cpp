// What a broken rule about experts says.

#include <string>

#include "planner/rules_nearest.h"
#include "planner/rules_table.h"

namespace mega::planner::explain {

RuleResult experts(const Facts& facts) {
  RuleResult result;
  const Strategy& s = facts.strategy;
  if (facts.experts == 0) {
    result.keys = {s.ep > 1 ? "layout.ep" : "layout.etp", "model.moe"};
    result.message = shown(facts, result.keys[0]) + " needs a model with experts (model.moe)";
    result.nearest = "layout.ep: 1, layout.etp: 1";
    return result;
  }
  result.keys = {"layout.ep", "model.moe.experts"};
  result.message = shown(facts, "layout.ep") + " does not divide the " +
                   shown(facts, "model.moe.experts") + " (remainder " +
                   number(facts.experts % s.ep) + ")";
  result.nearest = nearest(facts, "experts", {"layout.ep"});
  return result;
}

RuleResult expert_world(const Facts& facts) {
  RuleResult result;
  const Strategy& s = facts.strategy;
  result.keys = {"layout.ep", "layout.etp",   "layout.pp",
                 "layout.dp", "cluster.gpus", "cluster.nodes"};
  const std::int64_t expert_ranks_needed = std::int64_t{s.pp} * s.ep * s.etp;
  const std::int64_t ranks = expert_ranks(facts, s);
  const std::string product = shown(facts, "layout.ep") + " * etp " + number(s.etp) + " * pp " +
                              number(s.pp) + " = " + number(expert_ranks_needed);
  result.message = product + " does not divide the " + number(ranks) +
                   (facts.gpus > 0 ? " GPUs of the cluster" : " ranks of the layout") +
                   " (remainder " + number(ranks % expert_ranks_needed) + "); the least world is " +
                   number(least_world(s));
  result.nearest = nearest(facts, "expert_world", {"layout.ep", "layout.etp", "layout.dp"});
  return result;
}

RuleResult expert_ffn_hidden(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.etp", "model.moe.ffn_hidden"};
  result.message =
      shown(facts, "layout.etp") + " does not divide " + shown(facts, "model.moe.ffn_hidden");
  result.nearest = nearest(facts, "expert_ffn_hidden", {"layout.etp"});
  return result;
}

RuleResult shared_ffn_hidden(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.tp", "model.moe.shared_ffn_hidden"};
  result.message =
      shown(facts, "layout.tp") + " does not divide " + shown(facts, "model.moe.shared_ffn_hidden");
  result.nearest = nearest(facts, "shared_ffn_hidden", {"layout.tp"});
  return result;
}

RuleResult expert_tokens(const Facts& facts) {
  RuleResult result;
  const Strategy& s = facts.strategy;
  result.keys = {"layout.sequence_parallel", "layout.tp", "layout.ep", "layout.etp"};
  result.message = shown(facts, "layout.tp") + " with ep " + number(s.ep) + " * etp " +
                   number(s.etp) + " needs sequence_parallel: its ranks would send the same tokens";
  result.nearest = "layout.sequence_parallel: true";
  return result;
}

RuleResult expert_order(const Facts& facts) {
  RuleResult result;
  const Strategy& s = facts.strategy;
  result.keys = {"layout.rank_order", "layout.ep", "layout.etp", "layout.pp"};
  result.message = "layout.rank_order " + s.rank_order + " puts " +
                   number(ranks_inside_pp(s, false)) + " ranks inside pp, but " +
                   number(ranks_inside_pp(s, true)) + " of the expert mesh";
  result.nearest = "layout.rank_order: " + Strategy().rank_order;
  return result;
}

}  // namespace mega::planner::explain
