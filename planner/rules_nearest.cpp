#include "planner/rules_nearest.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ir/base/check.h"
#include "ir/base/text.h"

namespace mega::planner {
namespace {

// How far from the present value a neighbour is looked for. Rules repeat with divisors that are
// rarely larger; a try costs some tens of nanoseconds.
constexpr std::int64_t kFarthest = 20000;

struct DegreeKey {
  std::string_view key;
  int Strategy::*degree;
};
constexpr std::array<DegreeKey, 9> kDegrees = {{{"layout.tp", &Strategy::tp},
                                                {"layout.cp", &Strategy::cp},
                                                {"layout.pp", &Strategy::pp},
                                                {"layout.vpp", &Strategy::vpp},
                                                {"layout.dp", &Strategy::dp},
                                                {"layout.ep", &Strategy::ep},
                                                {"layout.etp", &Strategy::etp},
                                                {"layout.micro_batch", &Strategy::micro_batch},
                                                {"layout.zero_group", &Strategy::zero_group}}};

struct SizeKey {
  std::string_view key;
  std::int64_t Facts::*size;
};
constexpr std::array<SizeKey, 13> kSizes = {
    {{"model.layers", &Facts::layers},
     {"model.heads", &Facts::heads},
     {"model.kv_heads", &Facts::kv_heads},
     {"model.ffn_hidden", &Facts::ffn_hidden},
     {"model.moe.experts", &Facts::experts},
     {"model.moe.ffn_hidden", &Facts::expert_ffn_hidden},
     {"model.moe.shared_ffn_hidden", &Facts::shared_ffn_hidden},
     {"model.max_position", &Facts::position_rows},
     {"training.sequence_length", &Facts::sequence_length},
     {"training.global_batch", &Facts::global_batch},
     {"cluster.gpus", &Facts::gpus},
     {"cluster.nodes", &Facts::nodes},
     {"cluster.gpus_per_node", &Facts::gpus_per_node}}};

// dp is what the world leaves, where the user didn't give it.
void derive_dp(Facts& facts) {
  Strategy& s = facts.strategy;
  if (facts.gpus == 0 || facts.dp_given) return;
  s.dp = 1;
  const std::int64_t others = ranks_of(s);
  if (facts.gpus % others == 0) s.dp = static_cast<int>(facts.gpus / others);
}

// What a neighbour must keep: all rules, or (bit i: rule i) those that hold now and the one that
// is to be mended.
using Kept = std::uint64_t;
constexpr Kept kAll = ~Kept{0};

Kept kept_with(const Facts& facts, std::string_view mended) {
  Kept kept = 0;
  for (std::size_t i = 0; i < rules().size(); ++i) {
    const Rule& rule = rules()[i];
    if (rule.id == mended || rule.holds(facts, facts.strategy)) kept |= Kept{1} << i;
  }
  return kept;
}

bool keeps(const Facts& facts, Kept kept) {
  for (std::size_t i = 0; i < rules().size(); ++i) {
    if ((kept >> i & 1U) != 0 && !rules()[i].holds(facts, facts.strategy)) return false;
  }
  return true;
}

// The nearest values below and above.
std::vector<std::string> neighbours(const Facts& facts, const std::string& key, Kept kept) {
  std::vector<std::string> found;
  const std::int64_t now = value_of(facts, key);
  Facts neighbour = facts;
  for (const int direction : {-1, 1}) {
    for (std::int64_t distance = 1; distance <= kFarthest; ++distance) {
      const std::int64_t value = now + direction * distance;
      if (value < 1 || value > std::numeric_limits<int>::max()) break;
      assign(neighbour, key, value);
      if (!keeps(neighbour, kept)) continue;
      found.push_back(std::to_string(value));
      break;
    }
  }
  return found;
}

std::string listed(const Facts& facts, const std::vector<std::string>& keys, Kept kept) {
  std::vector<std::string> parts;
  for (const std::string& key : keys) {
    const std::vector<std::string> values = neighbours(facts, key, kept);
    if (!values.empty()) parts.push_back(key + ": " + any_of(values));
  }
  return join(parts, ", or ");
}

}  // namespace

std::int64_t value_of(const Facts& facts, const std::string& key) {
  for (const DegreeKey& known : kDegrees) {
    if (known.key == key) return facts.strategy.*known.degree;
  }
  for (const SizeKey& known : kSizes) {
    if (known.key == key) return facts.*known.size;
  }
  MEGA_CHECK(false, "no numeric key " + key);
}

void assign(Facts& facts, const std::string& key, std::int64_t value) {
  for (const DegreeKey& known : kDegrees) {
    if (known.key == key) facts.strategy.*known.degree = static_cast<int>(value);
  }
  for (const SizeKey& known : kSizes) {
    if (known.key == key) facts.*known.size = value;
  }
  if (key == "cluster.nodes") facts.gpus = facts.nodes * facts.gpus_per_node;
  if (key != "layout.dp") derive_dp(facts);
}

std::string number(std::int64_t value) {
  return std::to_string(value);
}

std::string shown(const Facts& facts, const std::string& key) {
  return key + " " + std::to_string(value_of(facts, key));
}

std::string nearest(const Facts& facts, std::string_view id, const std::vector<std::string>& keys) {
  const std::string legal = listed(facts, keys, kAll);
  return legal.empty() ? listed(facts, keys, kept_with(facts, id)) : legal;
}

}  // namespace mega::planner
