#include "kernels/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace mega::kernels {
namespace {

TEST(Sequence, WithoutPartsRowsAreInOrder) {
  const Sequence sequence = sequence_at({}, 5);
  EXPECT_EQ(sequence.position(3), 8);
  EXPECT_EQ(sequence.row(8), 3);
}

// Three parts of twelve positions: chunks 0 and 5, 1 and 4, 2 and 3.
TEST(Sequence, EachPartHasAnEarlyAndALateChunk) {
  const Attributes attributes{.length = 12, .parts = 3};
  std::vector<std::int64_t> positions;
  for (std::int64_t part = 0; part < 3; ++part) {
    const Sequence sequence = sequence_at(attributes, part * 4);
    for (std::int64_t row = 0; row < 4; ++row) {
      positions.push_back(sequence.position(row));
      EXPECT_EQ(sequence.row(positions.back()), row);
    }
    EXPECT_EQ(sequence.run(0), 2);
    EXPECT_EQ(sequence.run(1), 1);
    EXPECT_EQ(sequence.run(2), 2);
  }
  EXPECT_EQ(positions, (std::vector<std::int64_t>{0, 1, 10, 11, 2, 3, 8, 9, 4, 5, 6, 7}));
}

// A row's place is outside of a part that doesn't have its position.
TEST(Sequence, RowsOfOthersAreOutside) {
  const Sequence second = sequence_at({.length = 12, .parts = 3}, 4);
  for (const std::int64_t position : {0, 1, 4, 5, 6, 7, 10, 11}) {
    EXPECT_TRUE(second.row(position) < 0 || second.row(position) >= 4) << position;
  }
}

// What has moved one member on was the part before, around the ring.
TEST(Sequence, KeysThatMovedOnAreAnotherPart) {
  Call call;
  call.attributes = {.length = 12, .parts = 3, .shift = 1};
  call.origin = 0;
  EXPECT_EQ(key_sequence_of(call, 4).position(0), 4);  // of the third part
  call.origin = 8;
  EXPECT_EQ(key_sequence_of(call, 4).position(0), 2);   // of the second
  EXPECT_EQ(key_sequence_of(call, 12).position(0), 0);  // all keys
}

}  // namespace
}  // namespace mega::kernels
