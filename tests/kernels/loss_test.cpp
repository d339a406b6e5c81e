#include "kernels/loss.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Four tokens over a vocabulary of `limit`, split over parts of `width` columns; the whole padded
// logits are [4, parts * width], and padding holds large values that must not matter.
struct Split {
  std::int64_t limit, width, parts;
  std::vector<std::int32_t> labels;
  std::vector<float> logits;

  Split(std::int64_t true_size, std::int64_t part_width, std::int64_t part_count)
      : limit(true_size), width(part_width), parts(part_count) {
    for (std::int64_t token = 0; token < 4; ++token) {
      labels.push_back(token == 2 ? -1 : static_cast<std::int32_t>(token * 7 % limit));
      for (std::int64_t column = 0; column < width * parts; ++column) {
        const float value = static_cast<float>((token * 31 + column * 17) % 23) * 0.3F - 3;
        logits.push_back(column < limit ? value : 1000.0F);
      }
    }
  }
  std::size_t columns() const { return static_cast<std::size_t>(width * parts); }
  std::string sizes() const { return "s2 b2 v" + std::to_string(width); }

  void set_logits(KernelCall& call, std::int64_t part) const {
    const auto local = static_cast<std::size_t>(width);
    for (std::size_t i = 0; i < 4 * local; ++i) {
      call.in(0)[i] =
          logits[i / local * columns() + static_cast<std::size_t>(part) * local + i % local];
    }
    call.call.origin = part * width;
    call.call.attributes.limit = limit;
  }

  // In double, over the true columns.
  double log_sum(std::size_t token) const {
    double sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(limit); ++i) {
      sum += std::exp(static_cast<double>(logits[token * columns() + i]));
    }
    return std::log(sum);
  }
};

// What the parts' reductions yield together.
struct Reduced {
  std::vector<float> top, sum, target;
};

Reduced reduce(const Split& split) {
  Reduced all{std::vector<float>(4, -kInfinity), std::vector<float>(4, 0),
              std::vector<float>(4, 0)};
  for (std::int64_t part = 0; part < split.parts; ++part) {
    KernelCall call(OpKind::VocabMax, "sbv->sb", split.sizes());
    split.set_logits(call, part);
    call.run();
    for (std::size_t i = 0; i < 4; ++i) all.top[i] = std::max(all.top[i], call.out(0)[i]);
  }
  for (std::int64_t part = 0; part < split.parts; ++part) {
    KernelCall call(OpKind::VocabSumExp, "sbv,sb,sb->sb,sb", split.sizes());
    split.set_logits(call, part);
    std::copy(split.labels.begin(), split.labels.end(), call.in_ints(1).begin());
    std::copy(all.top.begin(), all.top.end(), call.in(2).begin());
    call.run();
    for (std::size_t i = 0; i < 4; ++i) {
      all.sum[i] += call.out(0)[i];
      all.target[i] += call.out(1)[i];
    }
  }
  return all;
}

// Case D15: a vocabulary of 5 over 4 parts of 2, the last of which is padding only.
const Split kSplits[] = {Split(5, 8, 1), Split(5, 2, 4), Split(1, 1, 1), Split(33, 40, 1),
                         Split(33, 10, 4)};

TEST(VocabularyLoss, D15PartsReduceToTheLossOfTheWhole) {
  for (const Split& split : kSplits) {
    const Reduced all = reduce(split);
    KernelCall call(OpKind::TokenLoss, "sb,sb,sb,sb,->", "s2 b2");
    std::copy(all.top.begin(), all.top.end(), call.in(0).begin());
    std::copy(all.sum.begin(), all.sum.end(), call.in(1).begin());
    std::copy(all.target.begin(), all.target.end(), call.in(2).begin());
    std::copy(split.labels.begin(), split.labels.end(), call.in_ints(3).begin());
    call.in_scalar(4) = 3;
    call.run();
    double expected = 0;
    for (std::size_t token = 0; token < 4; ++token) {
      if (split.labels[token] < 0) continue;
      const auto label = static_cast<std::size_t>(split.labels[token]);
      expected +=
          split.log_sum(token) - static_cast<double>(split.logits[token * split.columns() + label]);
    }
    EXPECT_NEAR(call.out_scalar(0), expected / 3, 1e-6);
  }
}

TEST(VocabularyLoss, D15BackwardIsSoftmaxLessOneHotAndZeroInPadding) {
  for (const Split& split : kSplits) {
    const Reduced all = reduce(split);
    for (std::int64_t part = 0; part < split.parts; ++part) {
      KernelCall call(OpKind::CrossEntropyBackward, "sbv,sb,sb,sb,->sbv", split.sizes());
      split.set_logits(call, part);
      std::copy(split.labels.begin(), split.labels.end(), call.in_ints(1).begin());
      std::copy(all.top.begin(), all.top.end(), call.in(2).begin());
      std::copy(all.sum.begin(), all.sum.end(), call.in(3).begin());
      call.in_scalar(4) = 3;
      call.run();
      for (std::size_t i = 0; i < call.out(0).size(); ++i) {
        const std::size_t token = i / static_cast<std::size_t>(split.width);
        const std::int64_t column = part * split.width + static_cast<std::int64_t>(i) % split.width;
        double expected = 0;
        if (split.labels[token] >= 0 && column < split.limit) {
          const double logit = static_cast<double>(
              split.logits[token * split.columns() + static_cast<std::size_t>(column)]);
          expected = std::exp(logit - split.log_sum(token));
          if (column == split.labels[token]) expected -= 1;
        }
        ASSERT_NEAR(call.out(0)[i], expected / 3, expected == 0 ? 0.0 : 1e-6);
      }
    }
  }
}

TEST(VocabularyLoss, BackwardWorksInPlace) {
  KernelCall apart(OpKind::CrossEntropyBackward, "sbv,sb,sb,sb,->sbv", "s3 b1 v33");
  KernelCall together(OpKind::CrossEntropyBackward, "sbv,sb,sb,sb,->sbv", "s3 b1 v33");
  together.share(0, 0);
  for (KernelCall* call : {&apart, &together}) {
    call->call.attributes.limit = 30;
    for (std::size_t i = 0; i < 3; ++i) call->in(3)[i] = 20;
    call->run();
  }
  for (std::size_t i = 0; i < 99; ++i) ASSERT_EQ(together.in(0)[i], apart.out(0)[i]);
}

TEST(VocabularyLoss, MaxOfPaddingIsMinusInfinityAndItsSumZero) {
  KernelCall top(OpKind::VocabMax, "sbv->sb", "s1 b1 v4");
  top.call.origin = 8;
  top.call.attributes.limit = 5;
  top.run();
  EXPECT_EQ(top.out(0)[0], -kInfinity);
  KernelCall sum(OpKind::VocabSumExp, "sbv,sb,sb->sb,sb", "s1 b1 v4");
  sum.call.origin = 8;
  sum.call.attributes.limit = 5;
  sum.run();
  EXPECT_EQ(sum.out(0)[0], 0.0F);
  EXPECT_EQ(sum.out(1)[0], 0.0F);
}

TEST(VocabularyLoss, NanLogitsStayVisible) {
  KernelCall top(OpKind::VocabMax, "sbv->sb", "s1 b1 v9");
  top.call.attributes.limit = 9;
  top.in(0)[4] = std::numeric_limits<float>::quiet_NaN();
  top.run();
  EXPECT_TRUE(std::isnan(top.out(0)[0]));
}

TEST(TokenLoss, OthersThanTheOwnerAddZero) {
  for (const bool is_owner : {true, false}) {
    for (const bool accumulate : {true, false}) {
      KernelCall call(OpKind::TokenLoss, "sb,sb,sb,sb,->", "s5 b7");
      for (float& sum : call.in(1)) sum = 2;
      for (float& target : call.in(2)) target = -1;
      call.in_scalar(4) = 35;
      call.call.is_owner = is_owner;
      if (accumulate) {
        call.accumulate(0);
        call.out_scalar(0) = 10;
      }
      call.run();
      const double expected = (accumulate ? 10 : 0) + (is_owner ? std::log(2.0) + 1 : 0);
      EXPECT_NEAR(call.out_scalar(0), expected, 1e-12);
    }
  }
}

// Case D12: three tokens of loss 1 in one micro-batch and one of loss 5 in the next have mean 2,
// not the mean 3 of their means.
TEST(TokenLoss, D12WeighsTokensNotMicroBatches) {
  double loss = 0;
  for (const int valid : {3, 1}) {
    KernelCall call(OpKind::TokenLoss, "sb,sb,sb,sb,->", "s3 b1");
    for (std::size_t i = 0; i < 3; ++i) {
      call.in(1)[i] = 1;  // log 1 = 0
      call.in(2)[i] = valid == 3 ? -1.0F : -5.0F;
      call.in_ints(3)[i] = static_cast<int>(i) < valid ? 0 : -1;
    }
    call.in_scalar(4) = 4;
    call.accumulate(0);
    call.out_scalar(0) = loss;
    call.run();
    loss = call.out_scalar(0);
  }
  EXPECT_EQ(loss, 2.0);
}

// Case D12: a rank without labels adds 0, also where the whole batch has none.
TEST(TokenLoss, D12WithoutLabelsIsZero) {
  for (const double count : {12.0, 0.0}) {
    KernelCall call(OpKind::TokenLoss, "sb,sb,sb,sb,->", "s2 b3");
    for (std::int32_t& label : call.in_ints(3)) label = -1;
    call.in_scalar(4) = count;
    call.run();
    EXPECT_EQ(call.out_scalar(0), 0.0);
  }
}

}  // namespace
}  // namespace mega::kernels
