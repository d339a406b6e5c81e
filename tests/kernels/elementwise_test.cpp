#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

TEST(Elementwise, FillWritesTheValue) {
  for (const char* size : {"n1", "n7", "n33", "n5000"}) {
    KernelCall call(OpKind::Fill, "->n", size);
    call.call.attributes.value = 1.5;
    call.run();
    for (const float value : call.out(0)) ASSERT_EQ(value, 1.5F);
  }
}

TEST(Elementwise, AddOverwritesOrAccumulates) {
  for (const char* sizes : {"s1 b1 h1", "s3 b1 h7", "s2 b3 h33"}) {
    KernelCall plain(OpKind::Add, "sbh,sbh->sbh", sizes);
    plain.run();
    KernelCall onto(OpKind::Add, "sbh,sbh->sbh", sizes);
    const auto before = onto.accumulate(0);
    onto.run();
    for (std::size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(plain.out(0)[i], plain.in(0)[i] + plain.in(1)[i]);
      ASSERT_EQ(onto.out(0)[i], before[i] + (onto.in(0)[i] + onto.in(1)[i]));
    }
  }
}

TEST(Elementwise, AddWorksInPlace) {
  KernelCall call(OpKind::Add, "h,h->h", "h133");
  const std::vector<float> before(call.in(0).begin(), call.in(0).end());
  call.share(0, 0);
  call.run();
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_EQ(call.in(0)[i], before[i] + call.in(1)[i]);
  }
}

TEST(Elementwise, AddBiasAddsToTheLastLetters) {
  KernelCall call(OpKind::AddBias, "sbgrd,grd->sbgrd", "s3 b2 g2 r3 d7");
  call.run();
  for (std::size_t i = 0; i < call.out(0).size(); ++i) {
    ASSERT_EQ(call.out(0)[i], call.in(0)[i] + call.in(1)[i % 42]);  // 2 * 3 * 7
  }
}

TEST(Elementwise, BiasBackwardSumsRows) {
  for (const char* sizes : {"s1 b1 n1", "s5 b3 n7", "s33 b2 n300"}) {
    for (const bool accumulate : {false, true}) {
      KernelCall call(OpKind::BiasBackward, "sbn->n", sizes);
      std::vector<double> expected(call.out(0).size(), 0);
      if (accumulate) {
        const auto before = call.accumulate(0);
        expected.assign(before.begin(), before.end());
      }
      for (std::size_t i = 0; i < call.in(0).size(); ++i) {
        expected[i % expected.size()] += static_cast<double>(call.in(0)[i]);
      }
      call.run();
      expect_close(call.out(0), expected, 1e-6);
    }
  }
}

// 20,000 addends of one size: a float's running sum would be off by 1e-4.
TEST(Elementwise, BiasBackwardDoesNotLoseSmallAddends) {
  KernelCall call(OpKind::BiasBackward, "sbn->n", "s20000 b1 n1");
  for (float& value : call.in(0)) value = 0.1F;
  call.run();
  EXPECT_EQ(call.out(0)[0], static_cast<float>(20000 * static_cast<double>(0.1F)));
}

}  // namespace
}  // namespace mega::kernels
