// Plans of every kind of layout, tiny, and what becomes of their mutants: refused by verify(),
// harmless, or survivors that compute something else, hang or crash.
#pragma once

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/mutants.h"
#include "tests/support/training.h"

namespace mega::testing {

struct MutatedPlan {
  const char* name;
  std::function<void(planner::JobSpec&)> job;
  std::function<void(planner::Strategy&)> layout;
  bool is_gpt2 = false;
  int layers = 2;
};

inline void use_experts(planner::JobSpec& job) {
  planner::MoeSpec moe;
  moe.experts = 4;
  moe.top_k = 2;
  moe.ffn_hidden = 16;
  moe.router.aux_coefficient = 0.02;
  moe.router.z_coefficient = 0.01;
  job.model.family = "mixtral";
  job.model.moe = moe;
}

inline void use_shared_experts(planner::JobSpec& job) {
  use_experts(job);
  planner::MoeSpec& moe = *job.model.moe;
  moe.router.score = planner::RouterScore::Sigmoid;
  moe.router.normalize = moe.router.bias = true;
  moe.router.bias_update_rate = 0.01;
  moe.router.scale = 2.5;
  moe.shared_ffn_hidden = 16;
  moe.first_dense_layers = 1;
}

inline void use_latent_attention(planner::JobSpec& job) {
  job.model.kv_heads = job.model.heads;
  job.model.mla = planner::MlaSpec{20, 12, 10, 6, 8};
  job.model.head_dim = 16;
}

inline const std::vector<MutatedPlan>& mutated_plans() {
  using planner::ContextKind;
  using planner::JobSpec;
  using planner::ScheduleKind;
  using planner::Strategy;
  static const auto as_it_is = [](JobSpec&) {};
  static const auto adamw = [](JobSpec& job) { use_adamw(job); };
  static const std::vector<MutatedPlan> plans = {
      {"one_rank", as_it_is, [](Strategy&) {}},
      {"tp2", adamw, [](Strategy& s) { s.tp = 2; }, true},
      {"tp2sp_dp2_zero1", adamw,
       [](Strategy& s) { s.tp = s.dp = 2, s.sequence_parallel = true, s.zero = 1; }, true},
      {"tp4sp_kv2", as_it_is, [](Strategy& s) { s.tp = 4, s.sequence_parallel = true; }},
      {"pp2_tied", as_it_is, [](Strategy& s) { s.pp = s.dp = 2; }, true},
      {"pp3_vpp2", adamw, [](Strategy& s) { s.pp = 3, s.vpp = 2; }, false, 6},
      {"zero2", as_it_is, [](Strategy& s) { s.dp = 2, s.zero = 2; }},
      {"zero3_pp2", adamw, [](Strategy& s) { s.dp = s.pp = 2, s.zero = 3; }, true},
      {"zero1_group2", as_it_is,
       [](Strategy& s) {
         s.dp = 4, s.zero = 1, s.zero_group = 2, s.overlap.parameter_gather = true;
       }},
      {"cp2_ring", as_it_is, [](Strategy& s) { s.cp = 2; }},
      {"cp2_all_gather", adamw, [](Strategy& s) { s.cp = 2, s.context = ContextKind::AllGather; },
       true},
      {"cp2_ulysses_tp2sp", as_it_is,
       [](Strategy& s) {
         s.cp = s.tp = 2, s.sequence_parallel = true, s.context = ContextKind::Ulysses;
       },
       true},
      {"ep2", use_experts, [](Strategy& s) { s.dp = s.ep = 2; }},
      {"ep2etp2_shared", use_shared_experts, [](Strategy& s) { s.dp = 4, s.ep = s.etp = 2; }},
      {"zb_h1", as_it_is, [](Strategy& s) { s.pp = 2, s.schedule = ScheduleKind::ZbH1; }, true},
      {"zb_v", as_it_is, [](Strategy& s) { s.pp = s.vpp = 2, s.schedule = ScheduleKind::ZbV; },
       false, 4},
      {"dualpipe_v", as_it_is,
       [](Strategy& s) { s.pp = s.vpp = 2, s.schedule = ScheduleKind::DualpipeV; }, true, 4},
      {"recompute_full", as_it_is,
       [](Strategy& s) { s.tp = 2, s.recompute = *planner::recompute_named("full"); }},
      {"recompute_selective", adamw,
       [](Strategy& s) { s.recompute = *planner::recompute_named("selective:mlp+norms"); }, true},
      {"latent", use_latent_attention, [](Strategy& s) { s.tp = 2, s.sequence_parallel = true; }},
  };
  return plans;
}

inline Plan compiled(const MutatedPlan& mutated) {
  planner::JobSpec job = training_job(mutated.is_gpt2);
  job.model.layers = mutated.layers;
  job.model.hidden = 16;
  job.model.ffn_hidden = 24;
  job.model.head_dim = 4;
  job.training.sequence_length = 8;
  job.model.max_position = 8;
  job.training.global_batch = 8;
  mutated.job(job);
  planner::Strategy strategy;
  strategy.overlap.gradient_reduce = strategy.overlap.pipeline = true;
  mutated.layout(strategy);
  if (strategy.zero > 0 && strategy.zero_group == 1) strategy.zero_group = strategy.dp;
  strategy = planner::normalised(strategy);
  strategy.stages = planner::even_cut(job.model.layers, strategy.pp * strategy.vpp);
  EXPECT_EQ(planner::count_broken(job, strategy), 0) << mutated.name;
  return plan_of(job, strategy);
}

// What a run shows after two steps; nothing where it fails.
struct Shown {
  std::vector<double> scalars;
  std::vector<runtime::GlobalTensor> tensors;
};

inline std::optional<Shown> show(const Plan& plan) {
  runtime::SessionOptions options;
  options.deadline = std::chrono::seconds(3);
  auto opened = runtime::Session::open(plan, options);
  if (!opened.ok()) return std::nullopt;
  runtime::Session& session = *opened.value();
  if (!session.start().ok()) return std::nullopt;
  Shown shown;
  std::vector<std::int64_t> windows(static_cast<std::size_t>(plan.header.global_batch));
  for (int step = 0; step < 2; ++step) {
    for (std::size_t i = 0; i < windows.size(); ++i) {
      windows[i] = static_cast<std::int64_t>(i) * 17 + step;
    }
    kernels::BatchView batch;
    batch.tokens = training_tokens().data();
    batch.windows = windows;
    const auto result = session.train(batch);
    if (!result.ok() || !session.compare_replicas().ok()) return std::nullopt;
    const runtime::StepResult& of = result.value();
    for (const auto& scalar : {of.loss, of.grad_norm, of.aux_loss}) {
      shown.scalars.push_back(scalar.value_or(0));
    }
  }
  for (const Role role : {Role::Gradient, Role::Parameter}) {
    auto tensors = session.gather(role);
    if (!tensors.ok()) return std::nullopt;
    for (runtime::GlobalTensor& tensor : tensors.value()) {
      shown.tensors.push_back(std::move(tensor));
    }
  }
  return shown;
}

// But for rounding: sums may be taken in another order.
inline bool are_alike(const Shown& a, const Shown& b) {
  const auto close = [](double x, double y, double scale) {
    return std::abs(x - y) <= 3e-6 * scale;
  };
  if (a.scalars.size() != b.scalars.size() || a.tensors.size() != b.tensors.size()) return false;
  for (std::size_t i = 0; i < a.scalars.size(); ++i) {
    if (!close(a.scalars[i], b.scalars[i], std::abs(b.scalars[i]))) return false;
  }
  double largest = 0;
  for (const runtime::GlobalTensor& tensor : b.tensors) {
    for (const float value : tensor.data) largest = std::max(largest, std::abs(double{value}));
  }
  for (std::size_t t = 0; t < b.tensors.size(); ++t) {
    const auto& [x, y] = std::pair(a.tensors[t].data, b.tensors[t].data);
    if (a.tensors[t].name != b.tensors[t].name || x.size() != y.size()) return false;
    double top = 0;
    for (const float value : y) top = std::max(top, std::abs(double{value}));
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (!close(x[i], y[i], top + 1e-2 * largest)) return false;
    }
  }
  return true;
}

enum class Fate : std::uint8_t { Refused, Harmless, Survivor };

// In a process of its own: what verify() lets pass may hang or crash.
inline Fate fate_of(const Plan& mutant, const Shown& expected) {
  if (!verify(mutant, "mutant").empty()) return Fate::Refused;
  int ends[2] = {};
  if (::pipe(ends) != 0) return Fate::Survivor;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto shown = show(mutant);
    const char verdict = shown && are_alike(*shown, expected) ? '=' : '!';
    ::_exit(::write(ends[1], &verdict, 1) == 1 ? 0 : 1);
  }
  ::close(ends[1]);
  pollfd wait{ends[0], POLLIN, 0};
  char verdict = '!';
  constexpr int kDeadlineMs = 30'000;
  if (::poll(&wait, 1, kDeadlineMs) != 1 || ::read(ends[0], &verdict, 1) != 1) verdict = '!';
  ::close(ends[0]);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return verdict == '=' ? Fate::Harmless : Fate::Survivor;
}

struct Counts {
  int refused = 0, harmless = 0, survivors = 0;
};

// `each` mutants of every kind of one plan; the survivors' names go to `tell`.
inline std::map<Mutation, Counts> mutate(const MutatedPlan& mutated, int each, std::uint64_t seed,
                                         const std::function<void(const std::string&)>& tell) {
  std::map<Mutation, Counts> counts;
  const Plan plan = compiled(mutated);
  const auto expected = show(plan);
  EXPECT_TRUE(expected.has_value()) << mutated.name;
  if (!expected) return counts;
  Mutator mutator(plan, seed);
  for (int kind = 0; kind < kMutations; ++kind) {
    const auto mutation = static_cast<Mutation>(kind);
    Counts& of_kind = counts[mutation];
    for (int i = 0; i < each; ++i) {
      const auto mutant = mutator.draw(mutation);
      if (!mutant) continue;
      switch (fate_of(mutant->plan, *expected)) {
        case Fate::Refused:
          ++of_kind.refused;
          break;
        case Fate::Harmless:
          ++of_kind.harmless;
          break;
        case Fate::Survivor:
          ++of_kind.survivors;
          tell(std::string(mutated.name) + ": " + mutant->what);
      }
    }
  }
  return counts;
}

}  // namespace mega::testing
