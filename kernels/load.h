// How evenly experts are used; kernels/route.h says what each op computes.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"
#include "kernels/route.h"

namespace mega::kernels {

// One launch row is a sequence: b of [s,b,e].
struct ExpertLoadRows {
  const float* logits;
  const std::int32_t* chosen;
  float* probabilities;
  float* tokens;
  std::int64_t length, batch, experts, choices;
  bool sigmoid;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t b, Lanes lanes) const {
    lanes.at(0, [=, this](std::int64_t) {
      float* p = probabilities + b * experts;
      float* n = tokens + b * experts;
      for (std::int64_t e = 0; e < experts; ++e) p[e] = n[e] = 0;
      for (std::int64_t s = 0; s < length; ++s) {
        const std::int64_t token = s * batch + b;
        const Scores scores = Scores::of(logits + token * experts, nullptr, experts, sigmoid);
        const float sum = sigmoid ? scores.sum() : 1.0F;
        for (std::int64_t e = 0; e < experts; ++e) p[e] += scores.of(e) / sum;
        for (std::int64_t i = 0; i < choices; ++i) n[chosen[token * choices + i]] += 1;
      }
    });
  }
};

template <class Stream>
void expert_load(Stream& stream, const Call& call) {
  const Operand& logits = call.inputs[0];
  launch_rows(stream, logits.shape[1],
              ExpertLoadRows{floats(logits), ints(call.inputs[1]), mutable_floats(call.outputs[0]),
                             mutable_floats(call.outputs[1]), logits.shape[0], logits.shape[1],
                             last_dimension(logits), last_dimension(call.inputs[1]),
                             call.attributes.sigmoid});
}

// What a scalar of the step receives from one micro-batch.
struct LossShare {
  double* loss;
  double scale;
  bool is_owner, accumulate;
  MEGA_HD void add(double total) const {
    const double share = is_owner ? scale * total : 0.0;
    *loss = accumulate ? *loss + share : share;
  }
};

struct BalanceLoss {
  const float* probabilities;
  const float* tokens;
  std::int64_t batch, experts;
  LossShare share;
  MEGA_HD double operator()(std::int64_t e) const {
    double p = 0, n = 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      p += static_cast<double>(probabilities[b * experts + e]);
      n += static_cast<double>(tokens[b * experts + e]);
    }
    return p * n;
  }
  MEGA_HD void finish(double total) const { share.add(total); }
};

inline LossShare share_of(const Call& call) {
  return {mutable_doubles(call.outputs[0]), call.attributes.scale, call.is_owner,
          accumulates(call, 0)};
}

template <class Stream>
void balance_loss(Stream& stream, const Call& call) {
  const Operand& tokens = call.inputs[1];
  launch_total(stream, last_dimension(tokens),
               BalanceLoss{floats(call.inputs[0]), floats(tokens), tokens.shape[0],
                           last_dimension(tokens), share_of(call)});
}

struct RouterZLoss {
  const float* logits;
  std::int64_t experts;
  LossShare share;
  MEGA_HD double operator()(std::int64_t token) const {
    const Scores scores = Scores::of(logits + token * experts, nullptr, experts, false);
    const double log_sum =
        static_cast<double>(scores.top) + std::log(static_cast<double>(scores.total));
    return log_sum * log_sum;
  }
  MEGA_HD void finish(double total) const { share.add(total); }
};

template <class Stream>
void router_z_loss(Stream& stream, const Call& call) {
  const Operand& logits = call.inputs[0];
  launch_total(stream, count_of(logits) / last_dimension(logits),
               RouterZLoss{floats(logits), last_dimension(logits), share_of(call)});
}

// One launch row is an expert.
struct CountExpertsRows {
  const std::int32_t* chosen;
  float* tokens;
  std::int64_t count;
  bool accumulate;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t expert, Lanes lanes) const {
    const float total = lanes.sum(
        count, [in = chosen, expert](std::int64_t i) { return in[i] == expert ? 1.0F : 0.0F; });
    lanes.at(0, [=, out = tokens, add_to = accumulate](std::int64_t) {
      put(out[expert], total, add_to);
    });
  }
};

template <class Stream>
void count_experts(Stream& stream, const Call& call) {
  launch_rows(stream, count_of(call.outputs[0]),
              CountExpertsRows{ints(call.inputs[0]), mutable_floats(call.outputs[0]),
                               count_of(call.inputs[0]), accumulates(call, 0)});
}

struct ShiftBiasRows {
  const float* tokens;
  float* bias;
  std::int64_t experts;
  float step;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t, Lanes lanes) const {
    const float sum = lanes.sum(experts, [in = tokens](std::int64_t e) { return in[e]; });
    const float mean = sum / static_cast<float>(experts);
    lanes.for_each(experts, [=, in = tokens, out = bias, by = step](std::int64_t e) {
      out[e] += in[e] < mean ? by : in[e] > mean ? -by : 0.0F;
    });
  }
};

template <class Stream>
void shift_bias(Stream& stream, const Call& call) {
  launch_rows(stream, 1,
              ShiftBiasRows{floats(call.inputs[0]), mutable_floats(call.outputs[0]),
                            count_of(call.inputs[0]), static_cast<float>(call.attributes.value)});
}

}  // namespace mega::kernels
