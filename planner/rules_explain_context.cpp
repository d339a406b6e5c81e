// What a broken rule about the sequence's parts says.

#include <algorithm>

#include "planner/rules_nearest.h"
#include "planner/rules_table.h"

namespace mega::planner::explain {

RuleResult context(const Facts& facts) {
  RuleResult result;
  const Strategy& s = facts.strategy;
  const bool is_zig_zag = s.context != ContextKind::Ulysses;
  const std::int64_t parts = (is_zig_zag ? 2 : 1) * std::int64_t{s.cp};
  result.keys = {"layout.cp", "training.sequence_length"};
  result.message = shown(facts, "training.sequence_length") + " is no multiple of " +
                   (is_zig_zag ? "2 * " : "") + shown(facts, "layout.cp") + " = " + number(parts) +
                   " (remainder " + number(facts.sequence_length % parts) + ")" +
                   (is_zig_zag ? ": each rank holds two chunks, one early and one late" : "");
  result.nearest = nearest(facts, "context", {"training.sequence_length", "layout.cp"});
  return result;
}

RuleResult ulysses(const Facts& facts) {
  RuleResult result;
  const Strategy& s = facts.strategy;
  const std::int64_t ranks = std::int64_t{s.cp} * s.tp;
  const std::int64_t kv_heads = std::max<std::int64_t>(1, facts.kv_heads / s.tp);
  result.keys = {"layout.cp", "layout.context", "layout.tp", "model.heads", "model.kv_heads"};
  result.message = "ulysses exchanges rows for heads: ";
  if (facts.heads % ranks != 0) {
    result.message += shown(facts, "model.heads") + " is no multiple of cp " + number(s.cp) +
                      " * tp " + number(s.tp) + " = " + number(ranks);
  }
  if (kv_heads % s.cp != 0) {
    result.message += std::string(facts.heads % ranks != 0 ? ", and " : "") + "the " +
                      number(kv_heads) + " kv heads of a tensor rank (" +
                      shown(facts, "model.kv_heads") + " / tp " + number(s.tp) +
                      ") are no multiple of " + shown(facts, "layout.cp");
  }
  result.nearest = "layout.context: ring, which has no rule for heads";
  const std::string fewer = nearest(facts, "ulysses", {"layout.cp"});
  if (!fewer.empty()) result.nearest += ", or " + fewer;
  return result;
}

RuleResult context_order(const Facts& facts) {
  RuleResult result;
  result.keys = {"layout.rank_order", "layout.sequence_parallel"};
  result.message =
      "with sequence_parallel a tensor group gathers one part of the sequence, but in "
      "layout.rank_order " +
      facts.strategy.rank_order + " cp stands before tp";
  result.nearest =
      "layout.rank_order: " + Strategy().rank_order + ", or layout.sequence_parallel: false";
  return result;
}

}  // namespace mega::planner::explain
