#include "kernels/limit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

TEST(Limit, ScaleMultiplies) {
  KernelCall call(OpKind::Scale, "sbh->sbh", "s3 b2 h7");
  call.call.attributes.value = 2.5;
  call.run();
  for (std::size_t i = 0; i < call.in(0).size(); ++i) {
    EXPECT_EQ(call.out(0)[i], 2.5F * call.in(0)[i]);
  }
}

// A gradient passes where the value is inside, as torch.clamp has it.
TEST(Limit, ClipAndItsBackward) {
  KernelCall forward(OpKind::Clip, "n->n", "n200");
  KernelCall backward(OpKind::ClipBackward, "n,n->n", "n200");
  forward.call.attributes.value = backward.call.attributes.value = 0.5;
  for (std::size_t i = 0; i < 200; ++i) backward.in(1)[i] = forward.in(0)[i];
  forward.run();
  backward.run();
  int inside = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    const float x = forward.in(0)[i];
    const bool is_inside = std::fabs(x) <= 0.5F;
    inside += is_inside ? 1 : 0;
    EXPECT_EQ(forward.out(0)[i], is_inside ? x : std::copysign(0.5F, x));
    EXPECT_EQ(backward.out(0)[i], is_inside ? backward.in(0)[i] : 0.0F);
  }
  EXPECT_GT(inside, 50);
  EXPECT_LT(inside, 150);
}

// The backward reads the forward's result.
TEST(Limit, SoftCapAndItsBackward) {
  KernelCall forward(OpKind::SoftCap, "sbv->sbv", "s3 b2 v45");
  KernelCall backward(OpKind::SoftCapBackward, "sbv,sbv->sbv", "s3 b2 v45");
  forward.call.attributes.value = backward.call.attributes.value = 30;
  for (float& x : forward.in(0)) x *= 80;
  forward.run();
  for (std::size_t i = 0; i < forward.out(0).size(); ++i) backward.in(1)[i] = forward.out(0)[i];
  backward.run();
  for (std::size_t i = 0; i < forward.out(0).size(); ++i) {
    const double t = std::tanh(static_cast<double>(forward.in(0)[i]) / 30);
    ASSERT_NEAR(forward.out(0)[i], 30 * t, 1e-5);
    ASSERT_NEAR(backward.out(0)[i], static_cast<double>(backward.in(0)[i]) * (1 - t * t), 1e-5);
  }
}

TEST(Limit, ANaNStaysVisible) {
  for (const OpKind kind : {OpKind::Scale, OpKind::Clip, OpKind::SoftCap, OpKind::Relu2}) {
    KernelCall call(kind, "n->n", "n3");
    call.call.attributes.value = 1;
    call.in(0)[1] = std::nanf("");
    call.run();
    EXPECT_TRUE(std::isnan(call.out(0)[1])) << info(kind).name;
  }
}

}  // namespace
}  // namespace mega::kernels
