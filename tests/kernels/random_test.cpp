#include "kernels/random.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

// Known answers that the authors of Philox publish with their code.
TEST(Philox, GivesTheKnownAnswers) {
  const Words zero = philox(0, 0, {{0, 0, 0, 0}});
  EXPECT_EQ(zero.word[0], 0x6627e8d5U);
  EXPECT_EQ(zero.word[1], 0xe169c58dU);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cU);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8U);
  const Words pi =
      philox(0xa4093822, 0x299f31d0, {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}});
  EXPECT_EQ(pi.word[0], 0xd16cfe09U);
  EXPECT_EQ(pi.word[1], 0x94fdccebU);
  EXPECT_EQ(pi.word[2], 0x5001e420U);
  EXPECT_EQ(pi.word[3], 0x24126ea1U);
}

// The part [start, start + local) of a tensor of `global_shape`.
std::vector<float> part(const Shape& global_shape, const Shape& start, const Shape& local,
                        std::uint64_t id = 0x123456789abcdefULL, std::uint64_t seed = 1234) {
  const std::string letters = std::string("abcd").substr(0, local.size());
  std::string sizes;
  for (std::size_t i = 0; i < local.size(); ++i) {
    sizes += letters[i] + std::to_string(local[i]) + " ";
  }
  KernelCall call(OpKind::InitNormal, "->" + letters, sizes);
  call.call.attributes.value = 0.5;
  call.call.scalars.seed = seed;
  call.call.box = {global_shape, start, id};
  call.run();
  return {call.out(0).begin(), call.out(0).end()};
}

TEST(InitNormal, FollowsTheRecipe) {
  const std::vector<float> all = part({3, 7}, {0, 0}, {3, 7});
  for (std::uint32_t i = 0; i < 21; ++i) {
    const Words w = philox(1234, 0x89abcdef, {{i / 4, 0, 0x1234567, 0}});
    const std::uint32_t* pair = &w.word[i % 4 / 2 * 2];
    const double radius = std::sqrt(-2 * std::log((pair[0] + 1.0) / 4294967296.0));
    const double angle = 2 * 3.14159265358979323846 * (pair[1] / 4294967296.0);
    EXPECT_EQ(all[i],
              static_cast<float>(0.5 * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle))));
  }
}

TEST(InitNormal, DoesNotDependOnTheSplit) {
  const Shape whole = {6, 10, 9};
  const std::vector<float> all = part(whole, {0, 0, 0}, whole);
  for (const Shape& local : {Shape{2, 10, 9}, Shape{6, 5, 9}, Shape{6, 10, 3}, Shape{3, 2, 1}}) {
    for (std::int64_t a = 0; a < 6; a += local[0]) {
      for (std::int64_t b = 0; b < 10; b += local[1]) {
        for (std::int64_t c = 0; c < 9; c += local[2]) {
          const auto some = part(whole, {a, b, c}, local);
          for (std::int64_t i = 0; i < static_cast<std::int64_t>(some.size()); ++i) {
            const std::int64_t x = a + i / (local[1] * local[2]);
            const std::int64_t y = b + i / local[2] % local[1];
            const std::int64_t z = c + i % local[2];
            ASSERT_EQ(some[static_cast<std::size_t>(i)],
                      all[static_cast<std::size_t>((x * 10 + y) * 9 + z)]);
          }
        }
      }
    }
  }
}

TEST(InitNormal, PaddingIsZeroAndChangesNothingElse) {
  const std::vector<float> plain = part({5, 3}, {0, 0}, {5, 3});
  const std::vector<float> padded = part({5, 3}, {0, 0}, {8, 4});
  for (std::size_t row = 0; row < 8; ++row) {
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_EQ(padded[row * 4 + i], row < 5 && i < 3 ? plain[row * 3 + i] : 0.0F);
    }
  }
  for (const float value : part({5, 3}, {6, 0}, {2, 3})) EXPECT_EQ(value, 0.0F);
}

TEST(InitNormal, IsStandardNormal) {
  const std::vector<float> all = part({100000}, {0}, {100000});
  double mean = 0, square = 0, fourth = 0;
  for (const float value : all) {
    const double x = static_cast<double>(value) / 0.5;
    mean += x / 1e5;
    square += x * x / 1e5;
    fourth += x * x * x * x / 1e5;
  }
  EXPECT_NEAR(mean, 0, 0.015);  // 4.7 standard errors of 1 / sqrt(1e5)
  EXPECT_NEAR(square, 1, 0.02);
  EXPECT_NEAR(fourth, 3, 0.15);
}

TEST(InitNormal, DependsOnTheTensorAndTheSeed) {
  const auto base = part({64}, {0}, {64});
  EXPECT_NE(base, part({64}, {0}, {64}, 0x123456789abcdeeULL));   // low half
  EXPECT_NE(base, part({64}, {0}, {64}, 0x1123456789abcdefULL));  // high half
  EXPECT_NE(base, part({64}, {0}, {64}, 0x123456789abcdefULL, 1235));
  EXPECT_NE(base, part({64}, {0}, {64}, 0x123456789abcdefULL, 1234 + (1ULL << 40)));
}

}  // namespace
}  // namespace mega::kernels
