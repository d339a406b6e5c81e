#include "runtime/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace mega::runtime {
namespace {

Corpus corpus_of(std::int64_t bytes) {
  Corpus corpus;
  corpus.bytes.assign(static_cast<std::size_t>(bytes), 'x');
  corpus.files = {{"text", 0}};
  return corpus;
}

TEST(Permutation, IsOneForEverySize) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097}) {
    const Permutation order(size, 1234, 0);
    std::vector<bool> seen(static_cast<std::size_t>(size), false);
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t image = order(i);
      ASSERT_GE(image, 0);
      ASSERT_LT(image, size);
      EXPECT_FALSE(seen[static_cast<std::size_t>(image)]);
      seen[static_cast<std::size_t>(image)] = true;
    }
  }
}

TEST(Permutation, DependsOnSeedAndEpoch) {
  const auto images = [](std::uint64_t seed, std::uint64_t epoch) {
    const Permutation order(1000, seed, epoch);
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < 1000; ++i) result.push_back(order(i));
    return result;
  };
  EXPECT_EQ(images(1, 0), images(1, 0));
  EXPECT_NE(images(1, 0), images(2, 0));
  EXPECT_NE(images(1, 0), images(1, 1));
  // It mixes: about one fixed point is expected, not many.
  const std::vector<std::int64_t> some = images(1, 0);
  int fixed = 0;
  for (std::int64_t i = 0; i < 1000; ++i) fixed += some[static_cast<std::size_t>(i)] == i;
  EXPECT_LT(fixed, 10);
}

TEST(Batches, AnEpochVisitsEachWindowOnce) {
  const Corpus corpus = corpus_of(1000);  // 900 for training: 81 windows of 10 + 1
  Batches batches = Batches::over(corpus, 10, 27, 5).value();
  EXPECT_EQ(batches.windows(), 81);
  std::set<std::int64_t> starts;
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (const std::int64_t start : batches.of_step(step).windows) starts.insert(start);
  }
  EXPECT_EQ(starts.size(), 81U);
  EXPECT_EQ(*starts.begin(), 0);
  EXPECT_EQ(*starts.rbegin(), 80 * 11);
  EXPECT_LE(*starts.rbegin() + 11, corpus.training_bytes());
  for (const std::int64_t start : starts) EXPECT_EQ(start % 11, 0);
}

TEST(Batches, SamplesDoNotDependOnTheBatchTheyComeIn) {
  const Corpus corpus = corpus_of(1000);
  Batches large = Batches::over(corpus, 10, 6, 5).value();
  Batches small = Batches::over(corpus, 10, 2, 5).value();
  // Step 20 of six: samples 114 .. 119, beyond the first epoch of 81.
  const auto windows = large.of_step(20).windows;
  const std::vector<std::int64_t> expected(windows.begin(), windows.end());
  std::vector<std::int64_t> found;
  for (std::int64_t step = 58; step <= 60; ++step) {
    for (const std::int64_t start : small.of_step(step).windows) found.push_back(start);
  }
  EXPECT_EQ(found, expected);
}

TEST(Batches, ATextShorterThanAWindowIsRefused) {
  const Corpus corpus = corpus_of(11);  // 10 for training
  EXPECT_TRUE(Batches::over(corpus, 9, 1, 0).ok());
  const auto batches = Batches::over(corpus, 10, 1, 0);
  ASSERT_FALSE(batches.ok());
  EXPECT_EQ(batches.errors().front().message,
            "the text has 10 bytes for training, a sequence of 10 tokens needs 11");
}

}  // namespace
}  // namespace mega::runtime
