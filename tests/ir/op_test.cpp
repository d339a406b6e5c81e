#include "ir/op.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace mega {
namespace {

TEST(Op, EveryRowOfTheTableIsSound) {
  std::set<std::string_view> names;
  for (const OpInfo& op : all_ops()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_EQ(op_named(op.name), op.kind);
    const auto index = parse_index(op.index);
    ASSERT_TRUE(index.has_value()) << op.name;
    EXPECT_EQ(op.can_accumulate >> index->outputs.size(), 0U) << op.name;
    for (const char letter : op.whole) {
      EXPECT_NE(op.index.find(letter), std::string_view::npos) << op.name << " " << letter;
    }
  }
  EXPECT_EQ(op_named("matmull"), std::nullopt);
}

TEST(Op, IndexStringsSplitIntoOperands) {
  const Index index = parse_index("sb,vh->sbh").value();
  EXPECT_EQ(index.inputs, (std::vector<std::string>{"sb", "vh"}));
  EXPECT_EQ(index.outputs, (std::vector<std::string>{"sbh"}));
  EXPECT_TRUE(parse_index("->n")->inputs.empty());
  EXPECT_EQ(parse_index("n,->n")->inputs, (std::vector<std::string>{"n", ""}));
  EXPECT_EQ(parse_index("->")->outputs, (std::vector<std::string>{""}));
}

TEST(Op, BadIndexStringsAreNone) {
  for (const char* const text : {"", "sb", "sb>h", "sB->h", "ss->h", "s b->h", "s->h->b", "1->2"}) {
    EXPECT_FALSE(parse_index(text).has_value()) << text;
  }
}

TEST(Op, ExtentsComeFromShapes) {
  const Index index = parse_index("sbh,nh->sbn").value();
  const std::vector<Shape> inputs = {{8, 2, 4}, {13, 4}};
  const std::vector<Shape> outputs = {{8, 2, 13}};
  const ExtentsOrMessage found = extents_of(index, inputs, outputs);
  ASSERT_TRUE(found.extents.has_value()) << found.message;
  EXPECT_EQ((*found.extents)['n'], 13);
  EXPECT_EQ(found.extents->product("sbh"), 64);  // 8 * 2 * 4
  EXPECT_EQ((*found.extents)['z'], 0);
}

TEST(Op, ShapesThatDoNotFitSayWhy) {
  const Index index = parse_index("sbh,nh->sbn").value();
  const std::vector<Shape> good = {{8, 2, 4}, {13, 4}};
  const std::vector<Shape> out = {{8, 2, 13}};
  EXPECT_EQ(extents_of(index, std::vector<Shape>{{8, 2, 4}, {13, 5}}, out).message,
            "dimension 'h' is 4 and 5");
  EXPECT_EQ(extents_of(index, std::vector<Shape>{{8, 2}, {13, 4}}, out).message,
            "operand 'sbh' has 3 dimensions, the buffer is [8,2]");
  EXPECT_EQ(extents_of(index, std::vector<Shape>{{8, 2, 4}}, out).message,
            "takes 2 inputs and 1 outputs, got 1 and 1");
  EXPECT_FALSE(extents_of(index, good, std::vector<Shape>{{8, 2, 14}}).extents.has_value());
}

TEST(Op, ContractedLettersAreThoseThatNoOutputHas) {
  EXPECT_EQ(contracted_letters(parse_index("sbh,nh->sbn").value()), "h");
  EXPECT_EQ(contracted_letters(parse_index("sbn->n").value()), "sb");
  EXPECT_EQ(contracted_letters(parse_index("sbh->sbh").value()), "");
}

TEST(Op, FlopsFollowTheirFormulas) {
  const auto of = [](OpKind kind, const std::string& text, std::vector<Shape> in,
                     std::vector<Shape> out, Attributes attributes) {
    const Index index = parse_index(text).value();
    return flops(kind, index, extents_of(index, in, out).extents.value(), attributes).count();
  };
  EXPECT_EQ(of(OpKind::MatMul, "sbh,nh->sbn", {{8, 2, 4}, {13, 4}}, {{8, 2, 13}}, {}),
            2.0 * 8 * 2 * 4 * 13);
  const std::string index(info(OpKind::Attention).index);
  const Shape q = {6, 2, 3, 2, 5}, kv = {6, 2, 3, 5}, lse = {6, 2, 3, 2};
  Attributes causal;
  causal.causal = true;
  // 4 s t b g r d, half of it where later keys are masked.
  EXPECT_EQ(of(OpKind::Attention, index, {q, kv, kv}, {q, lse}, {}), 4.0 * 6 * 6 * 2 * 3 * 2 * 5);
  EXPECT_EQ(of(OpKind::Attention, index, {q, kv, kv}, {q, lse}, causal),
            2.0 * 6 * 6 * 2 * 3 * 2 * 5);
}

TEST(Op, ScalarsOfTheLossAreDoubles) {
  EXPECT_EQ(output_dtype(OpKind::TokenLoss, 0), DType::Fp64);
  EXPECT_EQ(output_dtype(OpKind::SquareSum, 0), DType::Fp64);
  EXPECT_EQ(input_dtype(OpKind::AdamW, 1), DType::Fp64);
  EXPECT_EQ(input_dtype(OpKind::Embedding, 0), DType::Int32);
  EXPECT_EQ(input_dtype(OpKind::MatMul, 1), DType::Fp32);
}

TEST(Op, OnlyCollectivesAreCollectives) {
  int count = 0;
  for (const OpInfo& op : all_ops()) count += is_collective(op.kind) ? 1 : 0;
  EXPECT_EQ(count, 6);
}

}  // namespace
}  // namespace mega
