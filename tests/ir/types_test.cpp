#include "ir/types.h"

#include <gtest/gtest.h>

namespace mega {
namespace {

TEST(Types, NamesComeBack) {
  for (const DType dtype : {DType::Fp32, DType::Fp64, DType::Int32}) {
    EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
  }
  EXPECT_EQ(dtype_named("fp33"), std::nullopt);
  EXPECT_EQ(dtype_named(""), std::nullopt);
}

TEST(Types, BytesAreElementsTimesTheirSize) {
  EXPECT_EQ(bytes_of(DType::Fp32, {3, 5}), Bytes(60));  // 4 * 3 * 5
  EXPECT_EQ(bytes_of(DType::Fp64, {}), Bytes(8));       // a scalar is one element
  EXPECT_EQ(bytes_of(DType::Int32, {7, 0}), Bytes(0));  // no rows, no bytes
  EXPECT_EQ(element_count({1 << 20, 1 << 20}), std::int64_t{1} << 40);
}

TEST(Types, ShapesPrint) {
  EXPECT_EQ(to_string(Shape{4, 128}), "[4,128]");
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Types, RoundUpGoesToTheNextMultiple) {
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(1, 64), 64);
  EXPECT_EQ(round_up(64, 64), 64);
  EXPECT_EQ(round_up(65, 64), 128);
}

}  // namespace
}  // namespace mega
