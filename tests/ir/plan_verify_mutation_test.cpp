// Every small change of a plan that was right is refused, or is proven harmless: the interpreter
// runs it in many timings, and all of them end, and end alike. A change of when and where things
// happen must end where the plan itself ends; one of what is computed makes another plan, which
// is fine as long as it computes one thing.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan_verify.h"
#include "tests/support/pipeline_plan.h"
#include "tests/support/plan_check.h"
#include "tests/support/plan_interpreter.h"
#include "tests/support/plans.h"

namespace mega {
namespace {

using testing::parsed;
using testing::PlanInterpreter;

constexpr int kTimings = 12;

using Outcome = std::vector<std::map<std::string, PlanInterpreter::Symbols>>;

// Two steps, so that what one leaves behind meets the next; nothing when it doesn't end.
std::optional<Outcome> run(const Plan& plan, std::uint64_t timing) {
  PlanInterpreter interpreter(plan, timing);
  for (const char* const sequence : {"init", "train", "train"}) {
    if (!interpreter.run(sequence)) return std::nullopt;
  }
  Outcome outcome;
  for (int rank = 0; rank < world_size(plan); ++rank) {
    outcome.push_back(interpreter.persistent(rank));
  }
  return outcome;
}

struct Mutant {
  std::string what;
  Plan plan;
  bool is_another_plan = false;
};

class Mutants {
 public:
  explicit Mutants(Plan plan) : plan_(std::move(plan)) {}

  std::vector<Mutant> all() {
    for (std::size_t p = 0; p < plan_.programs.size(); ++p) {
      instructions(p);
      ops(p);
      buffers(p);
    }
    return std::move(mutants_);
  }

 private:
  void add(const std::string& what, const std::function<void(Plan&)>& change,
           bool is_another_plan = false) {
    Plan plan = plan_;
    change(plan);
    if (plan != plan_) mutants_.push_back({what, std::move(plan), is_another_plan});
  }

  // All instructions of a program's "train" in one row, through loops.
  static std::vector<Instruction*> row(Plan& plan, std::size_t program) {
    std::vector<Instruction*> all;
    for (Sequence& sequence : plan.programs[program].sequences) {
      if (sequence.name != "train") continue;
      for (Step& step : sequence.steps) {
        if (auto* one = std::get_if<Instruction>(&step)) all.push_back(one);
        if (auto* repeat = std::get_if<Repeat>(&step)) {
          for (Instruction& each : repeat->body) all.push_back(&each);
        }
      }
    }
    return all;
  }

  void instructions(std::size_t p) {
    const std::vector<Instruction*> originals = row(plan_, p);
    for (std::size_t i = 0; i < originals.size(); ++i) {
      const std::string where =
          plan_.programs[p].name + " instruction " + std::to_string(i + 1) + ": ";
      for (std::size_t w = 0; w < originals[i]->waits.size(); ++w) {
        add(where + "drop a wait", [&](Plan& plan) {
          auto& waits = row(plan, p)[i]->waits;
          waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
        });
        add(where + "wait for one less", [&](Plan& plan) { ++row(plan, p)[i]->waits[w].behind; });
      }
      if (i + 1 < originals.size()) {
        add(
            where + "swap with the next",
            [&](Plan& plan) { std::swap(*row(plan, p)[i], *row(plan, p)[i + 1]); }, true);
        add(
            where + "run the next in its place",
            [&](Plan& plan) { row(plan, p)[i]->body = row(plan, p)[i + 1]->body; }, true);
      }
      add(where + "move to the other queue", [&](Plan& plan) {
        QueueId& queue = row(plan, p)[i]->queue;
        queue.index = (queue.index + 1) % static_cast<int>(plan.queues.size());
      });
      numbers(p, i, where);
    }
  }

  void numbers(std::size_t p, std::size_t i, const std::string& where) {
    const auto shift = [](std::optional<Affine>& value, int by) {
      if (value) value->base += by;
    };
    const Instruction& original = *row(plan_, p)[i];
    for (const int by : {-1, 1}) {
      if (std::holds_alternative<mega::Run>(original.body)) {
        add(where + "another micro-batch",
            [&](Plan& plan) { shift(std::get<mega::Run>(row(plan, p)[i]->body).micro_batch, by); });
        add(where + "another slot",
            [&](Plan& plan) { shift(std::get<mega::Run>(row(plan, p)[i]->body).slot, by); });
        continue;
      }
      const std::size_t transfers = std::get<Exchange>(original.body).transfers.size();
      for (std::size_t t = 0; t < transfers; ++t) {
        const auto transfer = [&](Plan& plan) -> Transfer& {
          return std::get<Exchange>(row(plan, p)[i]->body).transfers[t];
        };
        add(where + "transfer another micro-batch",
            [&](Plan& plan) { shift(transfer(plan).micro_batch, by); });
        add(where + "transfer another slot", [&](Plan& plan) { shift(transfer(plan).slot, by); });
        add(where + "turn a transfer round",
            [&](Plan& plan) { transfer(plan).is_send = !transfer(plan).is_send; });
        add(where + "drop a transfer", [&](Plan& plan) {
          auto& all = std::get<Exchange>(row(plan, p)[i]->body).transfers;
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(t));
        });
      }
    }
  }

  void ops(std::size_t p) {
    for (std::size_t s = 0; s < plan_.programs[p].segments.size(); ++s) {
      const SegmentId id{static_cast<std::int32_t>(s)};
      const Segment& segment = plan_.programs[p].segments[id];
      for (std::size_t i = 0; i < segment.ops.size(); ++i) {
        const std::string where =
            plan_.programs[p].name + " " + segment.name + " op " + std::to_string(i + 1) + ": ";
        const auto of = [p, id](Plan& plan) -> std::vector<Op>& {
          return plan.programs[p].segments[id].ops;
        };
        add(
            where + "drop it",
            [&](Plan& plan) { of(plan).erase(of(plan).begin() + static_cast<std::ptrdiff_t>(i)); },
            true);
        add(
            where + "overwrite instead of adding",
            [&](Plan& plan) { of(plan)[i].attributes.accumulate = 0; }, true);
        add(
            where + "swap with the next",
            [&](Plan& plan) {
              if (i + 1 < of(plan).size()) std::swap(of(plan)[i], of(plan)[i + 1]);
            },
            true);
      }
    }
  }

  void buffers(std::size_t p) {
    const auto count = static_cast<std::int32_t>(plan_.programs[p].buffers.size());
    for (std::int32_t b = 0; b < count; ++b) {
      const std::string where =
          plan_.programs[p].name + " buffer " + plan_.programs[p].buffers[BufferId{b}].name + ": ";
      const auto of = [p, b](Plan& plan) -> Buffer& {
        return plan.programs[p].buffers[BufferId{b}];
      };
      add(where + "one row less", [&](Plan& plan) {
        if (!of(plan).shape.empty()) --of(plan).shape.front();
      });
      for (std::int32_t other = 0; other < count; ++other) {
        add(where + "on top of another", [&](Plan& plan) {
          const Buffer& target = plan.programs[p].buffers[BufferId{other}];
          if (target.region == of(plan).region && !target.parent && !of(plan).parent) {
            of(plan).offset = target.offset;
          }
        });
      }
    }
    add(plan_.programs[p].name + ": one slot less", [&](Plan& plan) {
      if (plan.programs[p].chunks[0].slot_count > 1) --plan.programs[p].chunks[0].slot_count;
    });
    add(plan_.programs[p].name + ": a smaller slot",
        [&](Plan& plan) { plan.programs[p].chunks[0].slot_bytes -= Bytes(kBufferAlignmentBytes); });
  }

  Plan plan_;
  std::vector<Mutant> mutants_;
};

// How the mutants of one plan fared that change only when and where things happen.
struct Tally {
  int refused = 0, harmless = 0;
};

// Why an accepted mutant is not harmless; empty when it is.
std::string harm(const Mutant& mutant, const std::optional<Outcome>& expected) {
  const auto first = run(mutant.plan, 0);
  if (!mutant.is_another_plan && first != expected) return "it computes something else";
  for (std::uint64_t timing = 0; timing < kTimings; ++timing) {
    const std::string when = " in timing " + std::to_string(timing);
    const auto outcome = run(mutant.plan, timing);
    if (!outcome) return "it never ends" + when;
    if (outcome != first) return "it computes something else" + when;
  }
  return "";
}

Tally check_mutants(const Plan& plan) {
  const auto expected = run(plan, 0);
  EXPECT_TRUE(expected.has_value());
  for (std::uint64_t timing = 1; timing < kTimings; ++timing) {
    EXPECT_EQ(run(plan, timing), expected) << "the plan itself, timing " << timing;
  }
  Tally tally;
  for (const Mutant& mutant : Mutants(plan).all()) {
    const bool is_refused = !verify(mutant.plan, "mutant.plan").empty();
    if (!mutant.is_another_plan) ++(is_refused ? tally.refused : tally.harmless);
    if (is_refused) continue;
    EXPECT_EQ(harm(mutant, expected), "") << mutant.what << ": accepted";
  }
  return tally;
}

TEST(PlanVerifyMutation, OneRank) {
  const Tally tally = check_mutants(parsed(testing::kBigram));
  EXPECT_GT(tally.refused, 5 * tally.harmless) << tally.harmless << " were harmless";
}

TEST(PlanVerifyMutation, TwoQueuesAndCollectives) {
  const Tally tally = check_mutants(parsed(testing::kTensorAndData));
  EXPECT_GT(tally.refused, 5 * tally.harmless) << tally.harmless << " were harmless";
}

TEST(PlanVerifyMutation, APipelineOfThree) {
  const Tally tally = check_mutants(parsed(testing::kPipelineOfThree));
  EXPECT_GT(tally.refused, 5 * tally.harmless) << tally.harmless << " were harmless";
}

// The other way round: what the verifier refuses for its order really goes wrong in some timing,
// so the interpreter is not blind.
TEST(PlanVerifyMutation, TheInterpreterSeesWhatADroppedWaitDoes) {
  Plan plan = parsed(testing::pipeline_plan({.stages = 3, .micro_batches = 6}));
  const auto expected = run(plan, 0);
  for (Program& program : plan.programs) {
    for (Step& step : program.sequences[1].steps) {
      if (auto* one = std::get_if<Instruction>(&step)) one->waits.clear();
    }
  }
  int wrong = 0;
  for (std::uint64_t timing = 0; timing < kTimings; ++timing) {
    wrong += run(plan, timing) == expected ? 0 : 1;
  }
  EXPECT_EQ(wrong, kTimings);
}

}  // namespace
}  // namespace mega
