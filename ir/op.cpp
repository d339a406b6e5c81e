#include "ir/op.h"

#include <algorithm>
#include <array>

#include "ir/base/check.h"

namespace mega {
namespace {

using enum Combine;

// kind, name, index, flexible, whole, combine, linear, can_accumulate, flops per point
constexpr std::array kOps = {
    OpInfo{OpKind::InputTokens, "input_tokens", "->sb", false, "", None, false, 0, 0},
    OpInfo{OpKind::InputLabels, "input_labels", "->sb", false, "", None, false, 0, 0},
    OpInfo{OpKind::CountTokens, "count_tokens", "->", false, "", None, false, 0, 0},

    OpInfo{OpKind::Embedding, "embedding", "sb,vh->sbh", false, "h", Sum, false, 0, 0},
    OpInfo{OpKind::AddPosition, "add_position", "sbh,ph->sbh", false, "hp", None, false, 0, 1},
    OpInfo{OpKind::LayerNorm, "layer_norm", "sbh,h,h->sbh,sb,sb", true, "h", None, false, 0, 8},
    OpInfo{OpKind::RmsNorm, "rms_norm", "sbh,h->sbh,sb", true, "h", None, false, 0, 6},
    OpInfo{OpKind::MatMul, "matmul", "sbh,nh->sbn", true, "", Sum, true, 1, 2},
    OpInfo{OpKind::AddBias, "add_bias", "sbn,n->sbn", true, "", None, false, 0, 1},
    OpInfo{OpKind::Rope, "rope", "sbgrd->sbgrd", true, "d", None, true, 0, 3},
    OpInfo{OpKind::Attention, "attention", "sbgrd,tbgd,tbgd->sbgrd,sbgr", false, "dt", None, false,
           3, 4},
    OpInfo{OpKind::GeluTanh, "gelu_tanh", "sbf->sbf", true, "", None, false, 0, 10},
    OpInfo{OpKind::Gelu, "gelu", "sbf->sbf", true, "", None, false, 0, 10},
    OpInfo{OpKind::Relu2, "relu2", "sbf->sbf", true, "", None, false, 0, 2},
    OpInfo{OpKind::SwiGlu, "swiglu", "sbf,sbf->sbf", true, "", None, false, 0, 6},
    OpInfo{OpKind::GeGlu, "geglu", "sbf,sbf->sbf", true, "", None, false, 0, 11},
    OpInfo{OpKind::Scale, "scale", "sbh->sbh", true, "", None, true, 0, 1},
    OpInfo{OpKind::Clip, "clip", "sbn->sbn", true, "", None, false, 0, 2},
    OpInfo{OpKind::SoftCap, "soft_cap", "sbv->sbv", true, "", None, false, 0, 8},
    OpInfo{OpKind::JoinHeads, "join_heads", "sbgo,sbi->sbgd", true, "oid", None, false, 0, 0},
    OpInfo{OpKind::Add, "add", "sbh,sbh->sbh", true, "", None, true, 1, 1},
    OpInfo{OpKind::Copy, "copy", "sbh->sbh", true, "", None, true, 0, 0},
    OpInfo{OpKind::VocabMax, "vocab_max", "sbv->sb", false, "", Max, false, 0, 1},
    OpInfo{OpKind::VocabSumExp, "vocab_sum_exp", "sbv,sb,sb->sb,sb", false, "", Sum, false, 0, 4},
    OpInfo{OpKind::TokenLoss, "token_loss", "sb,sb,sb,sb,->", false, "", Sum, false, 1, 3},
    OpInfo{OpKind::Route, "route", "sbe->sbk,sbk", true, "ek", None, false, 0, 8},
    OpInfo{OpKind::ExpertLoad, "expert_load", "sbe,sbk->be,be", false, "ek", Sum, false, 0, 4},
    OpInfo{OpKind::BalanceLoss, "balance_loss", "be,be->", false, "e", Sum, false, 1, 2},
    OpInfo{OpKind::RouterZLoss, "router_z_loss", "sbe->", false, "e", Sum, false, 1, 4},
    OpInfo{OpKind::CountExperts, "count_experts", "sbk->e", false, "ek", Sum, false, 1, 0},
    OpInfo{OpKind::SortRows, "sort_rows", "sbk->sbk,ze", false, "ek", None, false, 0, 0},
    OpInfo{OpKind::TakeRows, "take_rows", "sbh,sbk->ah", false, "hk", None, false, 0, 0},
    OpInfo{OpKind::GroupedMatMul, "grouped_matmul", "ch,xmh,yx->cm", true, "", Sum, true, 1, 2},
    OpInfo{OpKind::GroupedSwiGlu, "grouped_swiglu", "cm,cm,yx->cm", false, "", None, false, 0, 6},
    OpInfo{OpKind::GroupedGeGlu, "grouped_geglu", "cm,cm,yx->cm", false, "", None, false, 0, 11},
    OpInfo{OpKind::CombineRows, "combine_rows", "uh,sbk,sbk->sbh", false, "hk", None, false, 0, 0},

    OpInfo{OpKind::CrossEntropyBackward, "cross_entropy_backward", "sbv,sb,sb,sb,->sbv", false, "",
           None, false, 0, 4},
    OpInfo{OpKind::EmbeddingBackward, "embedding_backward", "sb,sbh->vh", false, "h", Sum, false, 1,
           0},
    OpInfo{OpKind::AddPositionBackward, "add_position_backward", "sbh->ph", false, "hp", Sum, false,
           1, 1},
    OpInfo{OpKind::LayerNormBackward, "layer_norm_backward", "sbh,sbh,h,sb,sb->sbh,h,h", true, "h",
           Sum, false, 7, 14},
    OpInfo{OpKind::RmsNormBackward, "rms_norm_backward", "sbh,sbh,h,sb->sbh,h", true, "h", Sum,
           false, 3, 10},
    OpInfo{OpKind::BiasBackward, "bias_backward", "sbn->n", true, "", Sum, true, 1, 1},
    OpInfo{OpKind::AttentionBackward, "attention_backward",
           "sbgrd,sbgrd,tbgd,tbgd,sbgrd,sbgr->sbgrd,tbgd,tbgd", false, "dts", Sum, false, 7, 10},
    OpInfo{OpKind::GeluTanhBackward, "gelu_tanh_backward", "sbf,sbf->sbf", true, "", None, false, 0,
           14},
    OpInfo{OpKind::GeluBackward, "gelu_backward", "sbf,sbf->sbf", true, "", None, false, 0, 14},
    OpInfo{OpKind::Relu2Backward, "relu2_backward", "sbf,sbf->sbf", true, "", None, false, 0, 3},
    OpInfo{OpKind::SwiGluBackward, "swiglu_backward", "sbf,sbf,sbf->sbf,sbf", true, "", None, false,
           0, 12},
    OpInfo{OpKind::GeGluBackward, "geglu_backward", "sbf,sbf,sbf->sbf,sbf", true, "", None, false,
           0, 18},
    OpInfo{OpKind::ClipBackward, "clip_backward", "sbn,sbn->sbn", true, "", None, false, 0, 2},
    OpInfo{OpKind::SoftCapBackward, "soft_cap_backward", "sbv,sbv->sbv", true, "", None, false, 0,
           4},
    OpInfo{OpKind::SplitHeads, "split_heads", "sbgd->sbgo,sbi", true, "oid", Sum, true, 0, 0},
    OpInfo{OpKind::RouteBackward, "route_backward", "sbk,sbe,sbk->sbe", true, "ek", None, false, 0,
           16},
    OpInfo{OpKind::SumRows, "sum_rows", "uh,sbk->sbh", false, "hk", None, false, 1, 0},
    OpInfo{OpKind::GroupedSwiGluBackward, "grouped_swiglu_backward", "cm,cm,cm,yx->cm,cm", false,
           "", None, false, 0, 12},
    OpInfo{OpKind::GroupedGeGluBackward, "grouped_geglu_backward", "cm,cm,cm,yx->cm,cm", false, "",
           None, false, 0, 18},
    OpInfo{OpKind::CombineRowsBackward, "combine_rows_backward", "sbh,uh,sbk,sbk->ah,sbk", false,
           "hk", None, false, 0, 0},

    OpInfo{OpKind::Fill, "fill", "->n", true, "", None, false, 0, 0},
    OpInfo{OpKind::InitNormal, "init_normal", "->n", true, "", None, false, 0, 0},
    OpInfo{OpKind::SquareSum, "square_sum", "n->", true, "", Sum, false, 1, 2},
    OpInfo{OpKind::AdamW, "adamw", "n,->n,n,n", false, "", None, false, 7, 14},
    OpInfo{OpKind::Sgd, "sgd", "n,->n,n", false, "", None, false, 3, 6},
    OpInfo{OpKind::ShiftBias, "shift_bias", "n->n", true, "n", None, false, 1, 2},

    OpInfo{OpKind::Pack, "pack", "sbg->xsby", true, "", None, false, 0, 0},
    OpInfo{OpKind::Unpack, "unpack", "xsby->sbg", true, "", None, false, 0, 0},

    OpInfo{OpKind::AllReduce, "all_reduce", "n->n", true, "", None, false, 0, 0},
    OpInfo{OpKind::ReduceScatter, "reduce_scatter", "n->m", true, "", None, false, 0, 0},
    OpInfo{OpKind::AllGather, "all_gather", "m->n", true, "", None, false, 0, 0},
    OpInfo{OpKind::AllToAll, "all_to_all", "m->n", true, "", None, false, 0, 0},
    OpInfo{OpKind::AllToAllV, "all_to_all_v", "ah,ze,yx->ch", true, "", None, true, 0, 0},
    OpInfo{OpKind::RingShift, "ring_shift", "n->n", true, "", None, false, 0, 0},
};

constexpr bool table_follows_enum() {
  for (std::size_t i = 0; i < kOps.size(); ++i) {
    if (static_cast<std::size_t>(kOps[i].kind) != i) return false;
  }
  return kOps.size() == static_cast<std::size_t>(OpKind::RingShift) + 1;
}
static_assert(table_follows_enum());

bool is_letter(char c) {
  return c >= 'a' && c <= 'z';
}

// Splits "ab,c" into {"ab", "c"}; an empty text is one scalar operand unless `may_be_none`.
std::optional<std::vector<std::string>> split_operands(std::string_view text, bool may_be_none) {
  std::vector<std::string> operands;
  if (may_be_none && text.empty()) return operands;
  std::string current;
  for (const char c : text) {
    if (c == ',') {
      operands.push_back(std::move(current));
      current.clear();
    } else if (!is_letter(c) || current.find(c) != std::string::npos) {
      return std::nullopt;
    } else {
      current += c;
    }
  }
  operands.push_back(std::move(current));
  return operands;
}

}  // namespace

const OpInfo& info(OpKind kind) {
  return kOps[static_cast<std::size_t>(kind)];
}

std::optional<OpKind> op_named(std::string_view name) {
  for (const OpInfo& op : kOps) {
    if (op.name == name) return op.kind;
  }
  return std::nullopt;
}

std::span<const OpInfo> all_ops() {
  return kOps;
}

bool is_collective(OpKind kind) {
  return kind >= OpKind::AllReduce;
}

std::optional<Index> parse_index(std::string_view text) {
  const std::size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) return std::nullopt;
  auto inputs = split_operands(text.substr(0, arrow), true);
  auto outputs = split_operands(text.substr(arrow + 2), false);
  if (!inputs || !outputs) return std::nullopt;
  return Index{std::move(*inputs), std::move(*outputs)};
}

std::int64_t Extents::product(std::string_view letters) const {
  std::int64_t result = 1;
  for (const char letter : letters) result *= (*this)[letter];
  return result;
}

ExtentsOrMessage extents_of(const Index& index, std::span<const Shape> inputs,
                            std::span<const Shape> outputs) {
  if (inputs.size() != index.inputs.size() || outputs.size() != index.outputs.size()) {
    return {std::nullopt, "takes " + std::to_string(index.inputs.size()) + " inputs and " +
                              std::to_string(index.outputs.size()) + " outputs, got " +
                              std::to_string(inputs.size()) + " and " +
                              std::to_string(outputs.size())};
  }
  Extents extents;
  std::string message;
  const auto match = [&](const std::string& letters, const Shape& shape) {
    if (letters.size() != shape.size()) {
      message = "operand '" + letters + "' has " + std::to_string(letters.size()) +
                " dimensions, the buffer is " + to_string(shape);
      return false;
    }
    for (std::size_t i = 0; i < letters.size(); ++i) {
      std::int64_t& size = extents.size[letters[i] - 'a'];
      if (size != 0 && size != shape[i]) {
        message = "dimension '" + std::string(1, letters[i]) + "' is " + std::to_string(size) +
                  " and " + std::to_string(shape[i]);
        return false;
      }
      size = shape[i];
    }
    return true;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!match(index.inputs[i], inputs[i])) return {std::nullopt, message};
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!match(index.outputs[i], outputs[i])) return {std::nullopt, message};
  }
  return {extents, {}};
}

std::string contracted_letters(const Index& index) {
  std::string letters;
  for (const std::string& input : index.inputs) {
    for (const char letter : input) {
      const bool in_output = std::any_of(
          index.outputs.begin(), index.outputs.end(),
          [&](const std::string& output) { return output.find(letter) != std::string::npos; });
      if (!in_output && letters.find(letter) == std::string::npos) letters += letter;
    }
  }
  return letters;
}

// Letters that count no work of their own.
static std::string_view ignored_letters(OpKind kind) {
  switch (kind) {
    case OpKind::Route:
    case OpKind::RouteBackward:
    case OpKind::ExpertLoad:
      return "k";
    case OpKind::GroupedMatMul:
    case OpKind::GroupedSwiGlu:
    case OpKind::GroupedGeGlu:
    case OpKind::GroupedSwiGluBackward:
    case OpKind::GroupedGeGluBackward:
      return "xy";
    default:
      return "";
  }
}

Flops flops(OpKind kind, const Index& index, const Extents& extents, const Attributes& attributes) {
  std::string letters;
  const auto add = [&](const std::string& operand) {
    for (const char letter : operand) {
      if (letters.find(letter) == std::string::npos) letters += letter;
    }
  };
  for (const std::string& input : index.inputs) add(input);
  for (const std::string& output : index.outputs) add(output);
  // Each token goes to k of the experts, each row through one of them.
  const std::string_view ignored = ignored_letters(kind);
  double points = 1;
  for (const char letter : letters) {
    if (ignored.find(letter) == std::string_view::npos) {
      points *= static_cast<double>(extents[letter]);
    }
  }
  if (kind == OpKind::AddPosition || kind == OpKind::AddPositionBackward) {
    // The table's rows are looked up, not multiplied.
    points /= static_cast<double>(std::max<std::int64_t>(extents['p'], 1));
  }
  const auto d = static_cast<double>(extents['d']), j = static_cast<double>(extents['j']);
  if (kind == OpKind::Attention && j > 0) points *= (d + j) / (2 * d * j);
  if (kind == OpKind::AttentionBackward && j > 0) points *= (3 * d + 2 * j) / (5 * d * j);
  if (attributes.causal) points /= 2;
  return Flops(info(kind).flops_per_point * points);
}

bool is_in_model_flops(OpKind kind) {
  return kind == OpKind::MatMul || kind == OpKind::GroupedMatMul || kind == OpKind::Attention;
}

DType input_dtype(OpKind kind, std::size_t position) {
  switch (kind) {
    case OpKind::Embedding:
    case OpKind::EmbeddingBackward:
      return position == 0 ? DType::Int32 : DType::Fp32;
    case OpKind::VocabSumExp:
      return position == 1 ? DType::Int32 : DType::Fp32;
    case OpKind::TokenLoss:
      return position == 3 ? DType::Int32 : position == 4 ? DType::Fp64 : DType::Fp32;
    case OpKind::CrossEntropyBackward:
      return position == 1 ? DType::Int32 : position == 4 ? DType::Fp64 : DType::Fp32;
    case OpKind::AdamW:
    case OpKind::Sgd:
      return position == 1 ? DType::Fp64 : DType::Fp32;
    case OpKind::CountExperts:
    case OpKind::SortRows:
    case OpKind::AllToAll:
      return DType::Int32;
    case OpKind::ExpertLoad:
    case OpKind::TakeRows:
    case OpKind::SumRows:
      return position == 1 ? DType::Int32 : DType::Fp32;
    case OpKind::GroupedMatMul:
    case OpKind::GroupedSwiGlu:
    case OpKind::GroupedGeGlu:
    case OpKind::RouteBackward:
      return position == 2 ? DType::Int32 : DType::Fp32;
    case OpKind::GroupedSwiGluBackward:
    case OpKind::GroupedGeGluBackward:
      return position == 3 ? DType::Int32 : DType::Fp32;
    case OpKind::CombineRows:  // rows, where they lie, weights
      return position == 1 ? DType::Int32 : DType::Fp32;
    case OpKind::CombineRowsBackward:
      return position == 2 ? DType::Int32 : DType::Fp32;
    case OpKind::AllToAllV:
      return position > 0 ? DType::Int32 : DType::Fp32;
    default:
      return DType::Fp32;
  }
}

DType output_dtype(OpKind kind, std::size_t position) {
  switch (kind) {
    case OpKind::InputTokens:
    case OpKind::InputLabels:
      return DType::Int32;
    case OpKind::CountTokens:
    case OpKind::SquareSum:
    case OpKind::TokenLoss:
    case OpKind::BalanceLoss:
    case OpKind::RouterZLoss:
      return DType::Fp64;
    case OpKind::SortRows:
    case OpKind::AllToAll:
      return DType::Int32;
    case OpKind::Route:
      return position == 1 ? DType::Int32 : DType::Fp32;
    default:
      return DType::Fp32;
  }
}

}  // namespace mega
