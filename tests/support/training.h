// Trains small jobs under different layouts and compares them with one rank, by the rule of
// equality: fp32, same micro_batch and global batch.
//   one SGD step      per tensor max|a - b| <= 1e-5 max|b| + 3e-8 G, G the model's largest gradient
//                     (GPT-2's key bias has gradient exactly 0, and half an ulp of fp32 is 6e-8;
//                     the kernels' rounding differs by CPU); loss and norm 1e-5 relative
//   20 AdamW steps    loss and norm 1e-4 relative
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan_text.h"
#include "ir/plan_verify.h"
#include "planner/compile.h"
#include "planner/rules.h"
#include "runtime/session.h"

namespace mega::testing {

// 8 layers of width 32, so that pp 4 and vpp 2 have a layer each; vocabulary 61 over padded 64.
inline planner::JobSpec training_job(bool is_gpt2) {
  planner::JobSpec job;
  job.name = is_gpt2 ? "gpt2" : "llama";
  planner::ModelSpec& model = job.model;
  model.name = model.family = job.name;
  model.layers = 8;
  model.hidden = 32;
  model.heads = 4;
  model.kv_heads = is_gpt2 ? 4 : 2;
  model.head_dim = 8;
  model.ffn_hidden = 64;
  model.vocab = 61;
  model.vocab_multiple = 8;
  model.max_position = 16;
  model.init_std = 0.1;  // gradients well away from rounding
  model.tied_embeddings = is_gpt2;
  model.bias_qkv = model.bias_attention_out = model.bias_mlp = is_gpt2;
  if (!is_gpt2) {
    model.norm = planner::NormKind::RmsNorm;
    model.activation = planner::ActivationKind::SwiGlu;
    model.position = planner::PositionKind::Rope;
  }
  job.training.sequence_length = 16;
  job.training.global_batch = 12;
  job.training.optimizer.kind = planner::OptimizerKind::Sgd;
  job.training.optimizer.learning_rate = 1e-2;
  job.training.optimizer.clip_grad = 0;
  return job;
}

inline void use_adamw(planner::JobSpec& job) {
  job.training.optimizer = {};
  job.training.optimizer.learning_rate = 1e-3;
}

struct Degrees {
  int tp = 1, pp = 1, vpp = 1, dp = 1;
  bool sequence_parallel = false;
};

// The strategy of these degrees with everything overlapped that can be, stages balanced.
inline planner::Strategy strategy_of(const planner::JobSpec& job, Degrees degrees) {
  planner::Strategy strategy;
  strategy.tp = degrees.tp;
  strategy.pp = degrees.pp;
  strategy.vpp = degrees.vpp;
  strategy.dp = degrees.dp;
  strategy.sequence_parallel = degrees.sequence_parallel;
  strategy.overlap.gradient_reduce = strategy.overlap.pipeline = true;
  strategy = planner::normalised(strategy);
  strategy.stages = planner::even_cut(job.model.layers, degrees.pp * degrees.vpp);
  return strategy;
}

struct Outcome {
  std::vector<double> losses, norms, aux_losses;             // per step
  std::vector<runtime::GlobalTensor> gradients, parameters;  // after the last
};

// What all trainings read: 4,000 tokens below 61 with no short period.
inline const std::vector<std::uint8_t>& training_tokens() {
  static const std::vector<std::uint8_t> tokens = [] {
    std::vector<std::uint8_t> bytes(4000);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>((i * 7 + i * i / 3 + i / 11) % 61);
    }
    return bytes;
  }();
  return tokens;
}

// The plan as megarun would see it: through its text, and proved.
inline Plan plan_of(const planner::JobSpec& job, const planner::Strategy& strategy) {
  planner::Planner planner(job);
  Plan plan = planner.compile(strategy);
  const std::string text = print_plan(plan);
  Result<Plan> parsed = parse_plan("plan", text);
  if (!parsed.ok()) {
    ADD_FAILURE() << render(parsed.errors(), {{"plan", text}});
    return plan;
  }
  EXPECT_EQ(render(verify(parsed.value(), "plan"), {}), "");
  return std::move(parsed).value();
}

// Runs `steps` steps; every step reads the same windows moved on by one. A failure is reported
// and leaves the outcome short.
inline Outcome train(const Plan& plan, int steps, const runtime::SessionOptions& options = {}) {
  Outcome outcome;
  auto opened = runtime::Session::open(plan, options);
  if (!opened.ok()) {
    ADD_FAILURE() << render(opened.errors(), {});
    return outcome;
  }
  runtime::Session& session = *opened.value();
  if (const Status status = session.start(); !status.ok()) {
    ADD_FAILURE() << render(status.errors(), {});
    return outcome;
  }
  std::vector<std::int64_t> windows(static_cast<std::size_t>(plan.header.global_batch));
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < windows.size(); ++i) {
      windows[i] = static_cast<std::int64_t>(i) * 17 + step;
    }
    kernels::BatchView batch;
    batch.tokens = training_tokens().data();
    batch.windows = windows;
    const auto result = session.train(batch);
    if (!result.ok()) {
      ADD_FAILURE() << "step " << step + 1 << ": " << render(result.errors(), {});
      return outcome;
    }
    outcome.losses.push_back(result.value().loss.value_or(NAN));
    outcome.norms.push_back(result.value().grad_norm.value_or(NAN));
    outcome.aux_losses.push_back(result.value().aux_loss.value_or(0));
    // D01, D02: copies have the same bits after every step.
    const Status replicas = session.compare_replicas();
    if (!replicas.ok()) ADD_FAILURE() << render(replicas.errors(), {});
  }
  for (const Role role : {Role::Gradient, Role::Parameter}) {
    auto tensors = session.gather(role);
    if (!tensors.ok()) {
      ADD_FAILURE() << render(tensors.errors(), {});
      continue;
    }
    (role == Role::Gradient ? outcome.gradients : outcome.parameters) = std::move(tensors).value();
  }
  for (int rank = 0; rank < world_size(plan); ++rank) {
    const Program& program = plan.programs[static_cast<std::size_t>(program_of(plan, rank))];
    EXPECT_EQ(session.allocated(rank), arena_bytes(program)) << "rank " << rank;
  }
  return outcome;
}

inline Outcome train(const planner::JobSpec& job, Degrees degrees, int steps) {
  return train(plan_of(job, strategy_of(job, degrees)), steps);
}

inline void expect_same_gradients(const Outcome& outcome, const Outcome& one_rank,
                                  double slack = 1) {
  double largest = 0;
  for (const runtime::GlobalTensor& tensor : one_rank.gradients) {
    for (const float value : tensor.data) {
      largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
  }
  ASSERT_EQ(outcome.gradients.size(), one_rank.gradients.size());
  ASSERT_GT(largest, 0);
  for (std::size_t t = 0; t < one_rank.gradients.size(); ++t) {
    const runtime::GlobalTensor& a = outcome.gradients[t];
    const runtime::GlobalTensor& b = one_rank.gradients[t];
    ASSERT_EQ(a.name, b.name);
    ASSERT_EQ(a.data.size(), b.data.size()) << a.name;
    double top = 0, worst = 0;
    for (std::size_t i = 0; i < b.data.size(); ++i) {
      const double difference = std::abs(static_cast<double>(a.data[i]) - b.data[i]);
      if (!(difference <= worst)) worst = difference;  // a NaN must not pass
      top = std::max(top, std::abs(static_cast<double>(b.data[i])));
    }
    EXPECT_LE(worst, slack * (1e-5 * top + 3e-8 * largest)) << a.name;
  }
}

inline void expect_same_steps(const Outcome& outcome, const Outcome& one_rank, double tolerance) {
  ASSERT_EQ(outcome.losses.size(), one_rank.losses.size());
  ASSERT_FALSE(one_rank.losses.empty());
  for (std::size_t i = 0; i < one_rank.losses.size(); ++i) {
    EXPECT_NEAR(outcome.losses[i], one_rank.losses[i], tolerance * one_rank.losses[i])
        << "loss of step " << i + 1;
    EXPECT_NEAR(outcome.norms[i], one_rank.norms[i], tolerance * one_rank.norms[i])
        << "norm of step " << i + 1;
    EXPECT_NEAR(outcome.aux_losses[i], one_rank.aux_losses[i], tolerance * one_rank.aux_losses[i])
        << "auxiliary loss of step " << i + 1;
  }
}

inline void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (std::size_t t = 0; t < a.parameters.size(); ++t) {
    EXPECT_EQ(a.parameters[t].data, b.parameters[t].data) << a.parameters[t].name;
    EXPECT_EQ(a.gradients[t].data, b.gradients[t].data) << a.gradients[t].name;
  }
}

inline std::string name_of(Degrees d) {
  std::string name = "tp" + std::to_string(d.tp) + "pp" + std::to_string(d.pp) + "vpp" +
                     std::to_string(d.vpp) + "dp" + std::to_string(d.dp);
  return name + (d.sequence_parallel ? "sp" : "");
}

}  // namespace mega::testing
