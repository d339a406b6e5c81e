#include "planner/spec/read_sections.h"

namespace mega::planner {
namespace {

void read_betas(MappingReader& reader, OptimizerSpec& optimizer) {
  const YamlNode* node = reader.find("betas");
  if (node == nullptr) return;
  std::vector<double> betas;
  for (const YamlNode& item : node->items) {
    const auto beta = item.is_scalar() ? parse_real(item.text) : std::nullopt;
    if (beta && *beta >= 0 && *beta < 1) betas.push_back(*beta);
  }
  if (!node->is_sequence() || node->items.size() != 2 || betas.size() != 2) {
    reader.fail("betas", reader.path_of("betas") + " must be two numbers in [0, 1)",
                "such as [0.9, 0.95]");
    return;
  }
  optimizer.beta1 = betas[0];
  optimizer.beta2 = betas[1];
}

ScheduleSpec read_schedule(MappingReader reader, double learning_rate) {
  ScheduleSpec schedule;
  schedule.kind = reader
                      .choice("kind", {"constant", "linear", "cosine", "inverse_sqrt"},
                              {"wsd", "warmup_stable_decay"})
                      .value_or("constant");
  schedule.warmup_steps = reader.integer("warmup_steps", {0, kMostSteps}).value_or(0);
  schedule.decay_steps = reader.integer("decay_steps", {1, kMostSteps}).value_or(0);
  schedule.min_learning_rate = reader.real("min_learning_rate", {0, 1e6}).value_or(0);
  const bool decays = schedule.kind == "linear" || schedule.kind == "cosine";
  if (decays) reader.required("decay_steps");
  if (decays && schedule.decay_steps > 0 && schedule.warmup_steps >= schedule.decay_steps) {
    reader.fail("warmup_steps",
                reader.path_of("warmup_steps") + " " + std::to_string(schedule.warmup_steps) +
                    " must be below decay_steps " + std::to_string(schedule.decay_steps),
                "decay_steps counts from the first step", {reader.path_of("decay_steps")});
  }
  if (schedule.min_learning_rate > learning_rate) {
    reader.fail("min_learning_rate",
                reader.path_of("min_learning_rate") + " " +
                    format_real(schedule.min_learning_rate) + " is above the learning_rate " +
                    format_real(learning_rate),
                "", {"training.optimizer.learning_rate"});
  }
  reader.finish();
  return schedule;
}

OptimizerSpec read_optimizer(MappingReader reader) {
  OptimizerSpec optimizer;
  const auto kind = reader.choice("kind", {"adamw", "sgd"}, {"adam", "muon", "lion"});
  optimizer.kind = kind == "sgd" ? OptimizerKind::Sgd : OptimizerKind::AdamW;
  optimizer.learning_rate =
      reader.real("learning_rate", {0, 1e6}).value_or(optimizer.learning_rate);
  read_betas(reader, optimizer);
  optimizer.epsilon = reader.real("epsilon", {0, 1, true}).value_or(optimizer.epsilon);
  optimizer.weight_decay = reader.real("weight_decay", {0, 1e6}).value_or(optimizer.weight_decay);
  optimizer.clip_grad = reader.real("clip_grad", {0, 1e30}).value_or(optimizer.clip_grad);
  optimizer.momentum = reader.real("momentum", {0, 1, false, true}).value_or(optimizer.momentum);
  if (const auto schedule = reader.mapping("schedule")) {
    optimizer.schedule = read_schedule(*schedule, optimizer.learning_rate);
  }
  reader.finish();
  return optimizer;
}

}  // namespace

TrainingSpec read_training(MappingReader reader) {
  TrainingSpec training;
  reader.required("sequence_length");
  reader.required("global_batch");
  // Zero marks what is missing or wrong.
  training.sequence_length = reader.integer("sequence_length", {1, kLargestSize}).value_or(0);
  training.global_batch = reader.integer("global_batch", {1, kLargestSize}).value_or(0);
  training.precision =
      reader.choice("precision", {"fp32", "bf16"}, {"fp16", "fp8"}).value_or(training.precision);
  training.seed = reader.integer("seed", {0, INT64_MAX}).value_or(training.seed);
  reader.choice("loss", {"per_token"}, {"per_micro_batch"});
  for (const char* key : {"fp8_recipe", "batch_schedule", "frozen", "tokens"}) {
    reader.not_built(key);
  }
  if (const auto optimizer = reader.mapping("optimizer")) {
    training.optimizer = read_optimizer(*optimizer);
  }
  reader.finish();
  return training;
}

}  // namespace mega::planner
