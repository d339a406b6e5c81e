// Which kernel each op is, the same for every machine: a backend includes this once and calls it
// with its stream, whose launch_rows, launch_elements, launch_total, matmul, grouped_matmul and
// attention are
// found by overload resolution.
#pragma once

#include "ir/base/check.h"
#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/grouped.h"
#include "kernels/heads.h"
#include "kernels/input.h"
#include "kernels/limit.h"
#include "kernels/load.h"
#include "kernels/loss.h"
#include "kernels/norm.h"
#include "kernels/norm_backward.h"
#include "kernels/optimizer.h"
#include "kernels/pack.h"
#include "kernels/position.h"
#include "kernels/random.h"
#include "kernels/rope.h"
#include "kernels/route.h"
#include "kernels/route_backward.h"
#include "kernels/rows.h"

namespace mega::kernels {

template <class Stream>
void dispatch_on(Stream& stream, const Call& call) {
  switch (call.kind) {
    using enum OpKind;
    // clang-format off
    case InputTokens: return input(stream, call, 0);
    case InputLabels: return input(stream, call, 1);
    case CountTokens: return count_tokens(stream, call);
    case Embedding: return embedding(stream, call);
    case AddPosition: return add_position(stream, call);
    case LayerNorm: return layer_norm(stream, call);
    case RmsNorm: return rms_norm(stream, call);
    case MatMul: return matmul(stream, call);
    case AddBias: return add_bias(stream, call);
    case Rope: return rope(stream, call);
    case Attention: return attention(stream, call);
    case GeluTanh: return activation<GeluTanhEach>(stream, call);
    case Gelu: return activation<GeluEach>(stream, call);
    case Relu2: return activation<Relu2Each>(stream, call);
    case SwiGlu: return activation_of_two<SwiGluEach>(stream, call);
    case GeGlu: return activation_of_two<GeGluEach>(stream, call);
    case Scale: return limit<ScaleEach>(stream, call);
    case Clip: return limit<ClipEach>(stream, call);
    case SoftCap: return limit<SoftCapEach>(stream, call);
    case JoinHeads: return join_heads(stream, call);
    case Add: return add(stream, call);
    case Copy: return copy(stream, call);
    case VocabMax: return vocab_max(stream, call);
    case VocabSumExp: return vocab_sum_exp(stream, call);
    case TokenLoss: return token_loss(stream, call);
    case Route: return route(stream, call);
    case ExpertLoad: return expert_load(stream, call);
    case BalanceLoss: return balance_loss(stream, call);
    case RouterZLoss: return router_z_loss(stream, call);
    case CountExperts: return count_experts(stream, call);
    case SortRows: return sort_rows(stream, call);
    case TakeRows: return take_rows(stream, call);
    case GroupedMatMul: return grouped_matmul(stream, call);
    case GroupedSwiGlu: return grouped_gated<SwiGluEach>(stream, call);
    case GroupedGeGlu: return grouped_gated<GeGluEach>(stream, call);
    case CombineRows: return combine_rows(stream, call);
    case CrossEntropyBackward: return cross_entropy_backward(stream, call);
    case EmbeddingBackward: return embedding_backward(stream, call);
    case AddPositionBackward: return add_position_backward(stream, call);
    case LayerNormBackward: return layer_norm_backward(stream, call);
    case RmsNormBackward: return rms_norm_backward(stream, call);
    case BiasBackward: return bias_backward(stream, call);
    case AttentionBackward: return attention_backward(stream, call);
    case GeluTanhBackward: return activation_of_two<GeluTanhBackwardEach>(stream, call);
    case GeluBackward: return activation_of_two<GeluBackwardEach>(stream, call);
    case Relu2Backward: return activation_of_two<Relu2BackwardEach>(stream, call);
    case SwiGluBackward: return gated_backward<SwiGluBackwardEach>(stream, call);
    case GeGluBackward: return gated_backward<GeGluBackwardEach>(stream, call);
    case ClipBackward: return limit_backward<ClipBackwardEach>(stream, call);
    case SoftCapBackward: return limit_backward<SoftCapBackwardEach>(stream, call);
    case SplitHeads: return split_heads(stream, call);
    case RouteBackward: return route_backward(stream, call);
    case SumRows: return sum_rows(stream, call);
    case GroupedSwiGluBackward: return grouped_gated_backward<SwiGluBackwardEach>(stream, call);
    case GroupedGeGluBackward: return grouped_gated_backward<GeGluBackwardEach>(stream, call);
    case CombineRowsBackward: return combine_rows_backward(stream, call);
    case Fill: return fill(stream, call);
    case InitNormal: return init_normal(stream, call);
    case SquareSum: return square_sum(stream, call);
    case AdamW: return adamw(stream, call);
    case Sgd: return sgd(stream, call);
    case ShiftBias: return shift_bias(stream, call);
    case Pack: return pack(stream, call, false);
    case Unpack: return pack(stream, call, true);
    case AllReduce:
    case ReduceScatter:
    case AllGather:
    case AllToAll:
    case AllToAllV:
    case RingShift: break;  // the runtime's communicators
      // clang-format on
  }
  MEGA_CHECK(false, "no kernel for " + std::string(info(call.kind).name));
}

}  // namespace mega::kernels
