// Cross entropy over a vocabulary that may be split: each part reduces its own columns, the parts
// are combined outside.
//   vocab_max               logits [s,b,v] -> max
//   vocab_sum_exp           logits, labels, max -> sum of e^(l - max), target's l - max
//   token_loss              max, sum, target, labels, count -> sum of (log sum - target) / count
//   cross_entropy_backward  logits, labels, max, sum, count -> dlogits; may be logits' buffer
// A part holds rows [origin, origin + v) of the padded vocabulary; rows from attributes.limit on
// are padding: they enter nothing and get gradient 0. The max of no columns is -inf, their sum 0.
// A label of -1 is masked: it counts nowhere. A target outside the part adds 0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"
#include "kernels/real.h"

namespace mega::kernels {

// The columns of one part.
struct VocabularyPart {
  std::int64_t origin, columns, valid;

  static VocabularyPart of(const Call& call) {
    const std::int64_t columns = last_dimension(call.inputs[0]);
    return {call.origin, columns,
            std::clamp<std::int64_t>(call.attributes.limit - call.origin, 0, columns)};
  }
  // Column of a label, or -1 when it isn't here.
  MEGA_HD std::int64_t column_of(std::int32_t label) const {
    const std::int64_t column = label - origin;
    return label >= 0 && column >= 0 && column < valid ? column : -1;
  }
};

struct VocabMaxRows {
  const float* logits;
  float* top;
  VocabularyPart part;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float* in = logits + row * part.columns;
    const float largest = lanes.max(part.valid, [=](std::int64_t i) { return in[i]; });
    lanes.at(0, [=, out = top](std::int64_t) { out[row] = largest; });
  }
};

template <class Stream>
void vocab_max(Stream& stream, const Call& call) {
  launch_rows(stream, count_of(call.outputs[0]),
              VocabMaxRows{floats(call.inputs[0]), mutable_floats(call.outputs[0]),
                           VocabularyPart::of(call)});
}

struct VocabSumExpRows {
  const float* logits;
  const std::int32_t* labels;
  const float* top;
  float* sum;
  float* target;
  VocabularyPart part;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float* in = logits + row * part.columns;
    const float largest = top[row];
    const float total =
        lanes.sum(part.valid, [=](std::int64_t i) { return exponential(in[i] - largest); });
    const std::int64_t column = part.column_of(labels[row]);
    lanes.at(0, [=, out = sum, to = target](std::int64_t) {
      out[row] = total;
      to[row] = column < 0 ? 0.0F : in[column] - largest;
    });
  }
};

template <class Stream>
void vocab_sum_exp(Stream& stream, const Call& call) {
  launch_rows(stream, count_of(call.outputs[0]),
              VocabSumExpRows{floats(call.inputs[0]), ints(call.inputs[1]), floats(call.inputs[2]),
                              mutable_floats(call.outputs[0]), mutable_floats(call.outputs[1]),
                              VocabularyPart::of(call)});
}

struct TokenLoss {
  const float* sum;
  const float* target;
  const std::int32_t* labels;
  const double* count;  // unmasked tokens of the global batch
  double* loss;
  bool is_owner, accumulate;

  MEGA_HD double operator()(std::int64_t i) const {
    return labels[i] < 0 ? 0.0
                         : std::log(static_cast<double>(sum[i])) - static_cast<double>(target[i]);
  }
  MEGA_HD void finish(double total) const {
    // A global batch without labels has loss 0, not 0/0.
    const double share = !is_owner || *count == 0 ? 0.0 : total / *count;
    *loss = accumulate ? *loss + share : share;
  }
};

template <class Stream>
void token_loss(Stream& stream, const Call& call) {
  launch_total(stream, count_of(call.inputs[1]),
               TokenLoss{floats(call.inputs[1]), floats(call.inputs[2]), ints(call.inputs[3]),
                         doubles(call.inputs[4]), mutable_doubles(call.outputs[0]), call.is_owner,
                         accumulates(call, 0)});
}

struct CrossEntropyBackwardRows {
  const float* logits;
  const std::int32_t* labels;
  const float* top;
  const float* sum;
  const double* count;
  float* dlogits;
  VocabularyPart part;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float* in = logits + row * part.columns;
    float* out = dlogits + row * part.columns;
    const bool is_masked = labels[row] < 0;
    const std::int64_t used = is_masked ? 0 : part.valid;
    const float largest = top[row];
    const auto weight = static_cast<float>(1.0 / *count);
    const auto scale = static_cast<float>(1.0 / (static_cast<double>(sum[row]) * *count));
    lanes.for_each(used, [=](std::int64_t i) { out[i] = exponential(in[i] - largest) * scale; });
    lanes.for_each(part.columns - used, [=](std::int64_t i) { out[used + i] = 0; });
    const std::int64_t column = part.column_of(labels[row]);
    if (column >= 0) lanes.at(column, [=](std::int64_t i) { out[i] -= weight; });
  }
};

template <class Stream>
void cross_entropy_backward(Stream& stream, const Call& call) {
  launch_rows(
      stream, count_of(call.inputs[1]),
      CrossEntropyBackwardRows{floats(call.inputs[0]), ints(call.inputs[1]), floats(call.inputs[2]),
                               floats(call.inputs[3]), doubles(call.inputs[4]),
                               mutable_floats(call.outputs[0]), VocabularyPart::of(call)});
}

}  // namespace mega::kernels
