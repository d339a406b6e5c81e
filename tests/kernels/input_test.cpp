#include "kernels/input.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

TEST(Input, ReadsTheWindowsOfItsSamples) {
  std::vector<std::uint8_t> text(200);
  std::iota(text.begin(), text.end(), std::uint8_t{0});
  const std::vector<std::int64_t> windows = {150, 10, 90, 0, 60, 120, 30, 180};
  for (const OpKind kind : {OpKind::InputTokens, OpKind::InputLabels}) {
    KernelCall call(kind, "->sb", "s5 b2");
    call.call.batch = {text.data(), windows};
    call.call.attributes.stride = 4;
    call.call.origin = 2;
    call.call.scalars.micro_batch = 1;
    call.run();
    for (std::size_t i = 0; i < 10; ++i) {
      // Samples 1 * 4 + 2 and the next.
      const std::int64_t token = windows[6 + i % 2] + static_cast<std::int64_t>(i / 2);
      EXPECT_EQ(call.out_ints(0)[i], token + (kind == OpKind::InputLabels ? 1 : 0));
    }
  }
}

TEST(InputDeathTest, RefusesSamplesPastTheBatch) {
  const std::vector<std::uint8_t> text(20);
  const std::vector<std::int64_t> windows = {0, 1, 2};
  KernelCall call(OpKind::InputTokens, "->sb", "s5 b2");
  call.call.batch = {text.data(), windows};
  call.call.origin = 2;
  EXPECT_DEATH(call.run(), "samples 2 to 4 of a batch of 3");
}

TEST(Input, CountsLabelsOfTheOwner) {
  for (const bool is_owner : {true, false}) {
    KernelCall call(OpKind::CountTokens, "->", "");
    call.call.attributes.limit = 640;
    call.call.is_owner = is_owner;
    call.run();
    EXPECT_EQ(call.out_scalar(0), is_owner ? 640 : 0);
  }
}

}  // namespace
}  // namespace mega::kernels
