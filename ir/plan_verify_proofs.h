// The proofs that verify() is made of, in the order in which they run. Internal to plan_verify.
#pragma once

#include <optional>
#include <vector>

#include "ir/plan.h"
#include "ir/plan_verify_report.h"
#include "ir/plan_verify_world.h"

namespace mega::verifying {

// Every number that later proofs follow names something; later proofs need this one.
void check_references(const Plan& plan, Report& report);

// Sizes that a run relies on are there, and rates are numbers.
void check_header(const Plan& plan, Report& report);

// Buffers lie inside their regions, aligned, apart from each other; shards cover their tensors.
void check_layout(const Plan& plan, int program, Report& report);
// One tensor has one shape, whoever holds parts of it.
void check_tensors(const Plan& plan, Report& report);

// Operand counts, element types, shapes, attributes and groups of every op.
void check_ops(const Plan& plan, int program, Report& report);

// A sequence as every program runs it; nothing where a program lacks it.
using UnrolledSequences = std::vector<std::optional<Unrolled>>;

// Every chunk sees every micro-batch once per segment.
void check_micro_batches(const Plan& plan, const UnrolledSequences& sequence, Report& report);

// What reads the global batch stays inside it, on every rank.
void check_input(const Plan& plan, const UnrolledSequences& sequence, Report& report);

// Ranks agree on their collectives and transfers, and nothing waits in a circle.
void check_communication(const Plan& plan, const World& world, const UnrolledSequences& sequence,
                         Report& report);

// Collectives of the same ranks on two queues have an order. Without one, each rank may start
// another one first, and a device that runs few at a time then waits for ever.
void check_concurrency(const Plan& plan, const World& world, const UnrolledSequences& sequence,
                       Report& report);

}  // namespace mega::verifying
