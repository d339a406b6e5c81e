#include "kernels/activation.h"

#include <gtest/gtest.h>

#include <functional>
#include <numbers>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

double gelu_tanh_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu_of(double x) {
  return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
}
double relu2_of(double x) {
  return x > 0 ? x * x : 0;
}
double silu_of(double x) {
  return x / (1 + std::exp(-x));
}
double slope(double (*f)(double), double x) {
  return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5;
}

struct Function {
  OpKind forward, backward;
  double (*value)(double);
};
constexpr Function kFunctions[] = {{OpKind::GeluTanh, OpKind::GeluTanhBackward, gelu_tanh_of},
                                   {OpKind::Gelu, OpKind::GeluBackward, gelu_of},
                                   {OpKind::Relu2, OpKind::Relu2Backward, relu2_of}};

// 1601 points from -8 to 8.
void spread(std::span<float> x) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = -8 + 0.01F * static_cast<float>(i);
}

TEST(Activation, MatchesItsFormula) {
  for (const Function& function : kFunctions) {
    KernelCall call(function.forward, "f->f", "f1601");
    spread(call.in(0));
    call.run();
    for (std::size_t i = 0; i < 1601; ++i) {
      const double expected = function.value(static_cast<double>(call.in(0)[i]));
      ASSERT_NEAR(call.out(0)[i], expected, 1e-7 + 4e-7 * std::fabs(expected)) << call.in(0)[i];
    }
  }
}

TEST(Activation, BackwardIsTheSlope) {
  for (const Function& function : kFunctions) {
    KernelCall call(function.backward, "f,f->f", "f1601");
    spread(call.in(1));
    call.run();
    for (std::size_t i = 0; i < 1601; ++i) {
      const double dy = static_cast<double>(call.in(0)[i]);
      const double expected = dy * slope(function.value, static_cast<double>(call.in(1)[i]));
      const double kink = function.backward == OpKind::Relu2Backward ? 1e-5 : 0;  // at 0
      ASSERT_NEAR(call.out(0)[i], expected, 1e-6 + kink) << call.in(1)[i];
    }
  }
}

struct Gate {
  OpKind forward, backward;
  double (*value)(double);
};

TEST(Activation, GatedOnesAndTheirBackwards) {
  for (const Gate& gate_kind : {Gate{OpKind::SwiGlu, OpKind::SwiGluBackward, silu_of},
                                Gate{OpKind::GeGlu, OpKind::GeGluBackward, gelu_tanh_of}})
    for (const char* sizes : {"s1 b1 f1", "s3 b1 f7", "s2 b2 f33"}) {
      KernelCall forward(gate_kind.forward, "sbf,sbf->sbf", sizes);
      for (float& x : forward.in(0)) x *= 6;
      forward.run();
      KernelCall backward(gate_kind.backward, "sbf,sbf,sbf->sbf,sbf", sizes);
      for (float& x : backward.in(1)) x *= 6;
      backward.run();
      for (std::size_t i = 0; i < forward.out(0).size(); ++i) {
        ASSERT_NEAR(forward.out(0)[i],
                    gate_kind.value(static_cast<double>(forward.in(0)[i])) *
                        static_cast<double>(forward.in(1)[i]),
                    1e-6);
        const double dy = static_cast<double>(backward.in(0)[i]);
        const double gate = static_cast<double>(backward.in(1)[i]);
        const double up = static_cast<double>(backward.in(2)[i]);
        ASSERT_NEAR(backward.out(0)[i], dy * up * slope(gate_kind.value, gate), 2e-6);
        ASSERT_NEAR(backward.out(1)[i], dy * gate_kind.value(gate), 1e-6);
      }
    }
}

TEST(Activation, WorksInPlace) {
  for (const std::size_t shared : {0U, 1U}) {
    KernelCall apart(OpKind::GeluTanhBackward, "f,f->f", "f77");
    apart.run();
    KernelCall together(OpKind::GeluTanhBackward, "f,f->f", "f77");
    together.share(0, shared);
    together.run();
    for (std::size_t i = 0; i < 77; ++i) ASSERT_EQ(together.in(shared)[i], apart.out(0)[i]);
  }
  KernelCall apart(OpKind::SwiGluBackward, "f,f,f->f,f", "f77");
  apart.run();
  KernelCall together(OpKind::SwiGluBackward, "f,f,f->f,f", "f77");
  together.share(0, 1);
  together.share(1, 2);
  together.run();
  for (std::size_t i = 0; i < 77; ++i) {
    ASSERT_EQ(together.in(1)[i], apart.out(0)[i]);
    ASSERT_EQ(together.in(2)[i], apart.out(1)[i]);
  }
}

TEST(Activation, KeepsNan) {
  for (const OpKind kind : {OpKind::GeluTanh, OpKind::Gelu}) {
    KernelCall call(kind, "f->f", "f20");
    call.in(0)[3] = std::numeric_limits<float>::quiet_NaN();
    call.run();
    EXPECT_TRUE(std::isnan(call.out(0)[3]));
    EXPECT_FALSE(std::isnan(call.out(0)[4]));
  }
}

TEST(Activation, OfALargeNumberIsTheNumberOrZero) {
  for (const OpKind kind : {OpKind::GeluTanh, OpKind::Gelu}) {
    KernelCall call(kind, "f->f", "f2");
    call.in(0)[0] = 1000;
    call.in(0)[1] = -1000;
    call.run();
    EXPECT_EQ(call.out(0)[0], 1000.0F);
    EXPECT_EQ(call.out(0)[1], 0.0F);
  }
}

}  // namespace
}  // namespace mega::kernels
