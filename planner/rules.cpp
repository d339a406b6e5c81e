#include "planner/rules.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ir/base/check.h"
#include "ir/base/text.h"
#include "planner/rules_table.h"
#include "planner/spec/mapping_reader.h"

namespace mega::planner {
namespace {

bool degrees_hold(const Facts&, const Strategy& s) {
  return std::min({s.tp, s.cp, s.pp, s.vpp, s.dp, s.ep, s.etp, s.micro_batch}) >= 1;
}

bool world_holds(const Facts& facts, const Strategy& s) {
  return facts.gpus == 0 || ranks_of(s) == facts.gpus;
}

bool heads_hold(const Facts& facts, const Strategy& s) {
  return facts.heads % s.tp == 0;
}

// Fewer kv heads than ranks: each is held by several ranks, and its gradients are summed.
bool kv_heads_hold(const Facts& facts, const Strategy& s) {
  return facts.kv_heads % s.tp == 0 || s.tp % facts.kv_heads == 0;
}

bool ffn_hidden_holds(const Facts& facts, const Strategy& s) {
  return facts.ffn_hidden % s.tp == 0;
}

// Zig-zag parts are two chunks each.
bool context_holds(const Facts& facts, const Strategy& s) {
  const std::int64_t chunks = s.cp > 1 && s.context != ContextKind::Ulysses ? 2 : 1;
  return facts.sequence_length % (chunks * s.cp) == 0;
}

// Rows are exchanged for heads: those of queries and of keys must go round.
bool ulysses_holds(const Facts& facts, const Strategy& s) {
  if (s.cp == 1 || s.context != ContextKind::Ulysses) return true;
  const std::int64_t kv_heads = std::max<std::int64_t>(1, facts.kv_heads / s.tp);
  return facts.heads % (std::int64_t{s.cp} * s.tp) == 0 && kv_heads % s.cp == 0;
}

// What a tensor group gathers of a sequence must be one part of it.
bool context_order_holds(const Facts&, const Strategy& s) {
  if (s.cp == 1 || s.tp == 1 || !s.sequence_parallel) return true;
  return s.rank_order.find("tp") < s.rank_order.find("cp");
}

bool sequence_parallel_holds(const Facts& facts, const Strategy& s) {
  const std::int64_t parts = std::int64_t{s.cp} * (s.sequence_parallel ? s.tp : 1);
  return facts.sequence_length % parts == 0;
}

bool max_position_holds(const Facts& facts, const Strategy&) {
  return facts.position_rows == 0 || facts.sequence_length <= facts.position_rows;
}

std::int64_t batch_step(const Strategy& s) {
  return std::int64_t{s.micro_batch} * s.dp;
}

bool global_batch_holds(const Facts& facts, const Strategy& s) {
  return facts.global_batch % batch_step(s) == 0;
}

// Beyond it a step is no longer simulated in reasonable time and memory.
bool micro_batches_hold(const Facts& facts, const Strategy& s) {
  return facts.global_batch / batch_step(s) <= kMostMicroBatches;
}

bool interleaved_stages_hold(const Facts&, const Strategy& s) {
  return s.vpp == 1 || s.pp > 1;
}

// The group of the interleaved schedule is the least N >= pp with M % N = 0 or M % N >= pp. Such
// an N exists (M itself) exactly when M >= pp. Stricter rules that are told of this schedule,
// M % pp = 0 or even M % (pp * vpp) = 0, are not needed.
bool interleaved_micro_batches_hold(const Facts& facts, const Strategy& s) {
  if (s.vpp == 1 || s.schedule != ScheduleKind::OneFOneB) return true;
  if (facts.global_batch % batch_step(s) != 0) return true;
  return facts.global_batch / batch_step(s) >= s.pp;
}

bool schedule_vpp_holds(const Facts&, const Strategy& s) {
  return takes_vpp(s.schedule, s.vpp);
}

bool dualpipe_micro_batches_hold(const Facts& facts, const Strategy& s) {
  if (s.schedule != ScheduleKind::DualpipeV || facts.global_batch % batch_step(s) != 0) return true;
  return facts.global_batch / batch_step(s) >= 2 * std::int64_t{s.pp};
}

std::int64_t virtual_stages(const Strategy& s) {
  return std::int64_t{s.pp} * s.vpp;
}

// Who gives the counts may leave stages without layers.
bool layers_hold(const Facts& facts, const Strategy& s) {
  return !s.stages.empty() || facts.layers >= virtual_stages(s);
}

bool even_stages_hold(const Facts& facts, const Strategy& s) {
  return !facts.even_stages || facts.layers % virtual_stages(s) == 0;
}

bool stage_counts_hold(const Facts& facts, const Strategy& s) {
  // A cut that `even` made is that rule's business.
  if (s.stages.empty() || facts.even_stages) return true;
  std::int64_t sum = 0;
  for (const int count : s.stages) {
    if (count < 0) return false;
    sum += count;
  }
  return sum == facts.layers && static_cast<std::int64_t>(s.stages.size()) == virtual_stages(s);
}

bool zero_group_holds(const Facts&, const Strategy& s) {
  if (s.zero == 0) return true;
  const std::int64_t all = std::int64_t{s.dp} * s.cp;
  return s.zero_group >= 1 && s.zero_group % s.cp == 0 && all % s.zero_group == 0;
}

// A part of the gradients is reduced, and one of the weights gathered, inside backward: split in
// two passes, it would have to travel twice.
bool split_backward_holds(const Facts&, const Strategy& s) {
  return s.zero <= 1 || !splits_backward(s.schedule);
}

bool experts_hold(const Facts& facts, const Strategy& s) {
  return facts.experts == 0 ? s.ep == 1 && s.etp == 1 : facts.experts % s.ep == 0;
}

// The ranks of a stage form the expert mesh, too.
bool expert_world_holds(const Facts& facts, const Strategy& s) {
  if (facts.experts == 0 || s.ep * s.etp == 1) return true;
  return expert_ranks(facts, s) % (std::int64_t{s.pp} * s.ep * s.etp) == 0;
}

bool expert_ffn_hidden_holds(const Facts& facts, const Strategy& s) {
  return facts.expert_ffn_hidden % s.etp == 0;
}

bool shared_ffn_hidden_holds(const Facts& facts, const Strategy& s) {
  return facts.shared_ffn_hidden % s.tp == 0;
}

// Else ranks of one tensor group would send the same tokens.
bool expert_tokens_hold(const Facts&, const Strategy& s) {
  return s.ep * s.etp == 1 || s.tp == 1 || s.sequence_parallel;
}

// Both meshes cut the ranks into the same pipeline groups.
bool expert_order_holds(const Facts&, const Strategy& s) {
  const std::int64_t sources = std::int64_t{s.ep} * s.etp;
  const std::int64_t stage = std::int64_t{s.dp} * s.cp * s.tp;
  if (s.pp == 1 || sources == 1 || stage % sources != 0) return true;  // or of another rule
  return ranks_inside_pp(s, false) == ranks_inside_pp(s, true);
}

bool is_built(const Facts&, const Strategy& s) {
  return s.recompute.layers == 0 && !s.overlap.tensor && !s.overlap.expert;
}

constexpr std::array kRules = {
    Rule{"degrees", "every degree and layout.micro_batch >= 1", degrees_hold, explain::degrees},
    Rule{"world", "tp * cp * pp * dp = the GPUs of the cluster", world_holds, explain::world},
    Rule{"heads", "model.heads % tp = 0", heads_hold, explain::heads},
    Rule{"kv_heads", "model.kv_heads % tp = 0 or tp % model.kv_heads = 0", kv_heads_hold,
         explain::kv_heads},
    Rule{"ffn_hidden", "model.ffn_hidden % tp = 0", ffn_hidden_holds, explain::ffn_hidden},
    Rule{"context", "training.sequence_length % (2 * cp) = 0; of ulysses % cp", context_holds,
         explain::context},
    Rule{"ulysses", "model.heads % (cp * tp) = 0 and max(1, model.kv_heads / tp) % cp = 0",
         ulysses_holds, explain::ulysses},
    Rule{"context_order", "tp stands before cp in rank_order, with sequence_parallel",
         context_order_holds, explain::context_order},
    Rule{"sequence_parallel",
         "training.sequence_length % cp = 0 and, with sequence_parallel, (sequence_length / cp) % "
         "tp = 0",
         sequence_parallel_holds, explain::sequence_parallel},
    Rule{"max_position", "training.sequence_length <= model.max_position, for learned positions",
         max_position_holds, explain::max_position},
    Rule{"global_batch", "training.global_batch % (micro_batch * dp) = 0", global_batch_holds,
         explain::global_batch},
    Rule{"micro_batches", "training.global_batch / (micro_batch * dp) <= 65536", micro_batches_hold,
         explain::micro_batches},
    Rule{"interleaved_stages", "vpp = 1 or pp > 1", interleaved_stages_hold,
         explain::interleaved_stages},
    Rule{"interleaved_micro_batches",
         "with 1f1b, vpp = 1 or training.global_batch / (micro_batch * dp) >= pp",
         interleaved_micro_batches_hold, explain::interleaved_micro_batches},
    Rule{"schedule_vpp", "vpp = 1 with gpipe and zb_h1, 2 with zb_v and dualpipe_v",
         schedule_vpp_holds, explain::schedule_vpp},
    Rule{"dualpipe_micro_batches",
         "with dualpipe_v, training.global_batch / (micro_batch * dp) >= 2 * pp",
         dualpipe_micro_batches_hold, explain::dualpipe_micro_batches},
    Rule{"layers", "model.layers >= pp * vpp, unless layout.stages has counts", layers_hold,
         explain::layers},
    Rule{"even_stages", "model.layers % (pp * vpp) = 0, for stages: even", even_stages_hold,
         explain::even_stages},
    Rule{"stage_counts", "layout.stages has pp * vpp counts that sum to model.layers",
         stage_counts_hold, explain::stage_counts},
    Rule{"zero_group", "zero_group = cp * d with d a divisor of dp", zero_group_holds,
         explain::zero_group},
    Rule{"split_backward", "zero <= 1 with zb_h1, zb_v and dualpipe_v", split_backward_holds,
         explain::split_backward},
    Rule{"experts", "model.moe.experts % ep = 0; ep = etp = 1 without experts", experts_hold,
         explain::experts},
    Rule{"expert_world", "the GPUs of the cluster % (pp * ep * etp) = 0", expert_world_holds,
         explain::expert_world},
    Rule{"expert_ffn_hidden", "model.moe.ffn_hidden % etp = 0", expert_ffn_hidden_holds,
         explain::expert_ffn_hidden},
    Rule{"shared_ffn_hidden", "model.moe.shared_ffn_hidden % tp = 0", shared_ffn_hidden_holds,
         explain::shared_ffn_hidden},
    Rule{"expert_tokens", "sequence_parallel where tp > 1 and ep * etp > 1", expert_tokens_hold,
         explain::expert_tokens},
    Rule{"expert_order", "rank_order has as many ranks inside pp on both meshes",
         expert_order_holds, explain::expert_order},
    Rule{"not_built", "only values that this version has", is_built, explain::not_built},
};

}  // namespace

std::span<const Rule> rules() {
  return kRules;
}

std::int64_t ranks_of(const Strategy& s) {
  std::int64_t product = 1;
  for (const int degree : {s.tp, s.cp, s.pp, s.dp}) {
    product = std::min(product * degree, kManyRanks);
  }
  return product;
}

std::int64_t expert_ranks(const Facts& facts, const Strategy& s) {
  return facts.gpus > 0 ? facts.gpus : ranks_of(s);
}

std::int64_t ranks_inside_pp(const Strategy& s, bool of_experts) {
  const std::int64_t edp = std::int64_t{s.dp} * s.cp * s.tp / (std::int64_t{s.ep} * s.etp);
  std::int64_t ranks = 1;
  for (const std::string& axis : split(s.rank_order, '-')) {
    if (axis == "pp") break;
    if (axis == "tp") ranks *= of_experts ? s.etp : s.tp;
    if (axis == "dp") ranks *= of_experts ? edp : s.dp;
    if (axis == "cp" && !of_experts) ranks *= s.cp;
    if (axis == "ep" && of_experts) ranks *= s.ep;
  }
  return ranks;
}

Facts facts_of(const JobSpec& job) {
  MEGA_CHECK(job.model.kv_heads > 0, "a model that was never read: no kv heads");
  Facts facts;
  facts.layers = job.model.layers;
  facts.heads = job.model.heads;
  facts.kv_heads = job.model.kv_heads;
  facts.ffn_hidden = job.model.ffn_hidden;
  if (job.model.moe) {
    facts.experts = job.model.moe->experts;
    facts.expert_ffn_hidden = job.model.moe->ffn_hidden;
    facts.shared_ffn_hidden = job.model.moe->shared_ffn_hidden;
    if (job.model.moe->first_dense_layers == 0) facts.ffn_hidden = 0;  // no layer has it
  }
  facts.sequence_length = job.training.sequence_length;
  facts.global_batch = job.training.global_batch;
  if (job.model.position == PositionKind::Learned) facts.position_rows = job.model.max_position;
  if (job.cluster) {
    facts.gpus = job.cluster->gpus;
    facts.nodes = job.cluster->nodes;
    facts.gpus_per_node = job.cluster->gpus_per_node;
  }
  facts.even_stages = job.layout.stages_mode == "even";
  facts.dp_given = job.layout.dp.has_value();
  return facts;
}

bool all_hold(const Facts& facts, const Strategy& strategy) {
  return std::all_of(kRules.begin(), kRules.end(),
                     [&](const Rule& rule) { return rule.holds(facts, strategy); });
}

bool is_legal(const JobSpec& job, const Strategy& strategy) {
  return all_hold(facts_of(job), strategy);
}

int count_broken(const JobSpec& job, const Strategy& strategy) {
  const Facts facts = facts_of(job);
  if (!degrees_hold(facts, strategy)) return 1;  // the others would divide by zero
  return static_cast<int>(std::count_if(kRules.begin(), kRules.end(), [&](const Rule& rule) {
    return !rule.holds(facts, strategy);
  }));
}

std::vector<RuleResult> check_rules(const JobSpec& job, const Strategy& strategy) {
  Facts facts = facts_of(job);
  facts.strategy = strategy;
  std::vector<RuleResult> results;
  for (const Rule& rule : kRules) {
    const bool ok = rule.holds(facts, strategy);
    RuleResult result = ok ? RuleResult{} : rule.explain(facts);
    result.rule = rule.id;
    result.ok = ok;
    if (ok) result.message = rule.formula;
    results.push_back(std::move(result));
    if (!ok && rule.holds == degrees_hold) break;  // the others would divide by zero
  }
  return results;
}

Errors rule_errors(const JobSpec& job, const Strategy& strategy) {
  Errors errors;
  for (RuleResult& result : check_rules(job, strategy)) {
    if (result.ok) continue;
    Diagnostic error{job.file, {}, std::move(result.message), {}, {}};
    if (!result.nearest.empty()) error.help = "nearest: " + result.nearest;
    std::vector<std::string> others = result.keys;
    const auto known = [&](const std::string& key) { return job.places.count(key) > 0; };
    const auto first = std::find_if(others.begin(), others.end(), known);
    if (first != others.end()) {
      error.file = job.places.at(*first).file;
      error.where = job.places.at(*first).where;
      others.erase(first);
      error.notes = notes_for(others, job.places);
    }
    errors.push_back(std::move(error));
  }
  return errors;
}

Strategy normalised(Strategy s) {
  const bool has_replicas = s.dp * s.cp > 1;
  if (s.tp == 1) s.sequence_parallel = false;
  if (!has_replicas || (s.cp == 1 && s.zero_group == 1)) s.zero = 0;
  if (s.zero == 0) s.zero_group = 1;
  if (s.cp == 1) s.context = ContextKind::Ring;
  // Beside backward, a reduction would race with the moves of rows and keys among the same ranks,
  // and so would a gather beside the forward of another chunk.
  const bool moves_rows = s.ep * s.etp > 1 || s.cp > 1;
  if (!has_replicas || moves_rows) s.overlap.gradient_reduce = false;
  // Zero 3 gathers inside forward and backward.
  if (moves_rows || s.zero == 0 || s.zero == 3) s.overlap.parameter_gather = false;
  if (s.tp == 1) s.overlap.tensor = false;
  if (s.pp == 1) s.overlap.pipeline = false;
  if (s.pp == 1) s.schedule = ScheduleKind::OneFOneB;
  if (s.ep == 1) s.overlap.expert = false;
  // Attention never keeps its scores: there is nothing to drop.
  std::erase(s.recompute.modules, "core_attention");
  if (s.recompute.kind == Recompute::Kind::Selective && s.recompute.modules.empty()) {
    s.recompute = {};
  }
  return s;
}

bool takes_vpp(ScheduleKind kind, int vpp) {
  switch (kind) {
    case ScheduleKind::OneFOneB:
      return true;
    case ScheduleKind::Gpipe:
    case ScheduleKind::ZbH1:
      return vpp == 1;
    case ScheduleKind::ZbV:
    case ScheduleKind::DualpipeV:
      return vpp == 2;
  }
  return false;
}

std::vector<int> even_cut(int layers, int stages) {
  std::vector<int> counts(static_cast<std::size_t>(std::max(stages, 1)), 1);
  int left = layers - static_cast<int>(counts.size());
  // One layer at a time to the stage with the least work, the middle ones first.
  while (left-- > 0) {
    std::size_t least = 0;
    const auto work = [&](std::size_t i) {
      return counts[i] + (i == 0 ? 1 : 0) + (i + 1 == counts.size() ? 1 : 0);
    };
    for (std::size_t i = 1; i < counts.size(); ++i) {
      if (work(i) < work(least)) least = i;
    }
    ++counts[least];
  }
  return counts;
}

}  // namespace mega::planner
