// Which experts a token goes to, with which weights, and what keeps the experts' load even.
//   route           logits [s,b,e], bias [e] or none -> weights, experts [s,b,k]: the k experts
//                   of the highest score, ties to the lower number
//   route_backward  dweights, logits, experts, expert_load's counts or none -> dlogits
//   expert_load     logits, experts -> per sequence [b,e]: sum of probabilities, tokens chosen
//   balance_loss    those two -> attributes.scale * sum over e of (sum over b) * (sum over b)
//   router_z_loss   logits -> attributes.scale * sum of (log sum exp)^2
//   count_experts   experts -> tokens per expert [e]
//   shift_bias      tokens per expert -> bias += value * sign(mean - tokens)
// Scores are a softmax or sigmoids. They are chosen by score + bias; with attributes.groups only
// from the group_limit groups whose k / group_limit best scores sum highest. Weights are the
// chosen scores, divided by their sum when attributes.normalize (a softmax that isn't over_all is
// one over the chosen), times attributes.scale.
#pragma once

#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"
#include "kernels/real.h"

namespace mega::kernels {

// The scores of one token.
struct Scores {
  const float* logits;
  const float* bias;  // nullptr for none
  std::int64_t experts;
  bool sigmoid;
  float top, total;  // of the softmax

  MEGA_HD static Scores of(const float* logits, const float* bias, std::int64_t experts,
                           bool sigmoid) {
    Scores scores{logits, bias, experts, sigmoid, logits[0], 0};
    for (std::int64_t e = 1; e < experts; ++e) {
      scores.top = logits[e] > scores.top ? logits[e] : scores.top;
    }
    for (std::int64_t e = 0; e < experts; ++e) scores.total += exponential(logits[e] - scores.top);
    return scores;
  }
  MEGA_HD float softmax(std::int64_t e) const { return exponential(logits[e] - top) / total; }
  MEGA_HD float of(std::int64_t e) const {
    return sigmoid ? Sigmoid::at(logits[e]).value : softmax(e);
  }
  MEGA_HD float choice(std::int64_t e) const { return bias == nullptr ? of(e) : of(e) + bias[e]; }
  MEGA_HD float sum() const {
    float all = 0;
    for (std::int64_t e = 0; e < experts; ++e) all += of(e);
    return all;
  }
};

// The best of [begin, end) after `last` in the order of falling score, then rising number; -1
// when there is none. `groups` has a bit per group that may be used.
MEGA_HD inline std::int64_t next_best(const Scores& scores, std::int64_t begin, std::int64_t end,
                                      std::int64_t last, std::uint64_t groups,
                                      std::int64_t group_size) {
  const float before = last < 0 ? 0.0F : scores.choice(last);
  std::int64_t best = -1;
  float score = 0;
  for (std::int64_t e = begin; e < end; ++e) {
    if ((groups >> (e / group_size) & 1U) == 0) continue;
    const float here = scores.choice(e);
    const bool is_taken = last >= 0 && (here > before || (here == before && e <= last));
    if (is_taken || (best >= 0 && !(here > score))) continue;
    best = e;
    score = here;
  }
  return best;
}

inline constexpr std::int64_t kMostGroups = 64;

struct RouteRows {
  const float* logits;
  const float* bias;
  float* weights;
  std::int32_t* chosen;
  std::int64_t experts, choices, groups, group_limit;
  float scale;
  bool sigmoid, normalize;

  // The groups with the highest sums of their best scores.
  MEGA_HD std::uint64_t usable_groups(const Scores& scores) const {
    if (groups == 0) return ~std::uint64_t{0};
    float sums[kMostGroups];
    const std::int64_t size = experts / groups;
    for (std::int64_t g = 0; g < groups; ++g) {
      sums[g] = 0;
      std::int64_t best = -1;
      for (std::int64_t i = 0; i < choices / group_limit; ++i) {
        best = next_best(scores, g * size, (g + 1) * size, best, ~std::uint64_t{0}, size);
        if (best >= 0) sums[g] += scores.choice(best);
      }
    }
    std::uint64_t usable = 0;
    for (std::int64_t i = 0; i < group_limit; ++i) {
      std::int64_t best = -1;
      for (std::int64_t g = 0; g < groups; ++g) {
        const bool is_free = (usable >> g & 1U) == 0;
        if (is_free && (best < 0 || sums[g] > sums[best])) best = g;
      }
      usable |= std::uint64_t{1} << best;
    }
    return usable;
  }

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    lanes.at(0, [=, this](std::int64_t) {
      const Scores scores = Scores::of(logits + row * experts, bias, experts, sigmoid);
      const std::uint64_t usable = usable_groups(scores);
      const std::int64_t group_size = groups == 0 ? experts : experts / groups;
      std::int64_t last = -1;
      float sum = 0;
      for (std::int64_t i = 0; i < choices; ++i) {
        last = next_best(scores, 0, experts, last, usable, group_size);
        chosen[row * choices + i] = static_cast<std::int32_t>(last);
        weights[row * choices + i] = scores.of(last);
        sum += scores.of(last);
      }
      const float factor = normalize ? scale / (sum + 1e-20F) : scale;
      for (std::int64_t i = 0; i < choices; ++i) weights[row * choices + i] *= factor;
    });
  }
};

template <class Stream>
void route(Stream& stream, const Call& call) {
  const Attributes& a = call.attributes;
  const Operand& logits = call.inputs[0];
  const Operand& weights = call.outputs[0];
  const bool has_bias = call.index->inputs.size() == 2;
  launch_rows(
      stream, count_of(weights) / last_dimension(weights),
      RouteRows{floats(logits), has_bias ? floats(call.inputs[1]) : nullptr,
                mutable_floats(weights), mutable_ints(call.outputs[1]), last_dimension(logits),
                last_dimension(weights), a.groups, a.group_limit, static_cast<float>(a.scale),
                a.sigmoid, a.normalize || (!a.sigmoid && !a.over_all)});
}

}  // namespace mega::kernels
