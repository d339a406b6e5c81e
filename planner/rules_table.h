// The inside of planner/rules: what the rules look at, and the table.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "planner/rules.h"

namespace mega::planner {

// A layout beside the sizes that constrain it. Small, so that the neighbours of an illegal layout
// can be tried by the thousand.
struct Facts {
  std::int64_t layers = 0, heads = 0, kv_heads = 0, ffn_hidden = 0;
  std::int64_t experts = 0, expert_ffn_hidden = 0, shared_ffn_hidden = 0;  // 0: none
  std::int64_t sequence_length = 0, global_batch = 0;
  std::int64_t position_rows = 0;  // of a learned position table; 0 for none
  std::int64_t gpus = 0;           // 0 without a cluster
  std::int64_t nodes = 0, gpus_per_node = 0;
  bool even_stages = false;  // the user asked for stages: even
  bool dp_given = false;     // else dp follows from the world
  Strategy strategy;
};

// The sizes alone; `strategy` stays at its default.
Facts facts_of(const JobSpec& job);

struct Rule {
  std::string_view id;
  std::string_view formula;
  bool (*holds)(const Facts& facts, const Strategy& strategy);
  // Message, nearest and keys of a broken rule. May assume that all degrees are at least 1, but
  // for the rule `degrees` itself.
  RuleResult (*explain)(const Facts& facts);
};

std::span<const Rule> rules();
bool all_hold(const Facts& facts, const Strategy& strategy);

// tp * cp * pp * dp, or kManyRanks when it is larger than that.
// Micro-batches of one step and data-parallel rank that are supported.
inline constexpr std::int64_t kMostMicroBatches = 65536;

inline constexpr std::int64_t kManyRanks = std::int64_t{1} << 31;
std::int64_t ranks_of(const Strategy& strategy);

// What the expert mesh covers: the cluster, or without one the ranks of the layout.
std::int64_t expert_ranks(const Facts& facts, const Strategy& strategy);

// Product of the degrees that the rank order has further in than pp, on one of the meshes.
std::int64_t ranks_inside_pp(const Strategy& strategy, bool of_experts);

namespace explain {
RuleResult degrees(const Facts& facts);
RuleResult world(const Facts& facts);
RuleResult heads(const Facts& facts);
RuleResult kv_heads(const Facts& facts);
RuleResult ffn_hidden(const Facts& facts);
RuleResult context(const Facts& facts);
RuleResult ulysses(const Facts& facts);
RuleResult context_order(const Facts& facts);
RuleResult sequence_parallel(const Facts& facts);
RuleResult max_position(const Facts& facts);
RuleResult global_batch(const Facts& facts);
RuleResult micro_batches(const Facts& facts);
RuleResult interleaved_stages(const Facts& facts);
RuleResult interleaved_micro_batches(const Facts& facts);
RuleResult schedule_vpp(const Facts& facts);
RuleResult dualpipe_micro_batches(const Facts& facts);
RuleResult layers(const Facts& facts);
RuleResult even_stages(const Facts& facts);
RuleResult stage_counts(const Facts& facts);
RuleResult zero_group(const Facts& facts);
RuleResult split_backward(const Facts& facts);
RuleResult experts(const Facts& facts);
RuleResult expert_world(const Facts& facts);
RuleResult expert_ffn_hidden(const Facts& facts);
RuleResult shared_ffn_hidden(const Facts& facts);
RuleResult expert_tokens(const Facts& facts);
RuleResult expert_order(const Facts& facts);
RuleResult not_built(const Facts& facts);
}  // namespace explain

}  // namespace mega::planner
