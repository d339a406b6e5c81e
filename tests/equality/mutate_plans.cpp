// mutate_plans: changes plans of every kind of layout in small ways and runs what verify() lets
// pass; tools/dev/mutate-plans builds it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "tests/equality/mutated_plans.h"

int main(int argc, char** argv) {
  using namespace mega::testing;
  int each = 20;
  std::uint64_t seed = 1;
  std::string only;
  CLI::App app("Mutates plans and counts what verify() refuses.", "mutate-plans");
  app.add_option("--each", each, "mutants of each kind and plan (default: 20)");
  app.add_option("--seed", seed, "of the mutants (default: 1)");
  app.add_option("--plan", only, "this plan alone");
  CLI11_PARSE(app, argc, argv);
  std::map<Mutation, Counts> total;
  for (const MutatedPlan& mutated : mutated_plans()) {
    if (!only.empty() && only != mutated.name) continue;
    const auto counts = mutate(mutated, each, seed, [](const std::string& name) {
      std::cout << "survivor: " << name << std::endl;
    });
    for (const auto& [kind, of_kind] : counts) {
      total[kind].refused += of_kind.refused;
      total[kind].harmless += of_kind.harmless;
      total[kind].survivors += of_kind.survivors;
    }
  }
  int survivors = 0;
  std::printf("%-18s %8s %8s %9s\n", "kind", "refused", "harmless", "survivors");
  for (const auto& [kind, of_kind] : total) {
    survivors += of_kind.survivors;
    std::printf("%-18s %8d %8d %9d\n", name_of(kind), of_kind.refused, of_kind.harmless,
                of_kind.survivors);
  }
  return survivors == 0 ? 0 : 1;
}
