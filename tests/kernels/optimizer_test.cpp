#include "kernels/optimizer.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

TEST(SquareSum, SumsInDouble) {
  for (const char* sizes : {"n1", "n7", "n63", "n65", "n10001"}) {
    KernelCall call(OpKind::SquareSum, "n->", sizes);
    double expected = 0;
    for (const float x : call.in(0)) expected += static_cast<double>(x) * static_cast<double>(x);
    call.run();
    EXPECT_NEAR(call.out_scalar(0) / expected, 1, 1e-13);
  }
}

TEST(SquareSum, OthersThanTheOwnerAddZero) {
  for (const bool is_owner : {true, false}) {
    KernelCall call(OpKind::SquareSum, "n->", "n2");
    call.in(0)[0] = 3;
    call.in(0)[1] = 4;
    call.accumulate(0);
    call.out_scalar(0) = 100;
    call.call.is_owner = is_owner;
    call.run();
    EXPECT_EQ(call.out_scalar(0), is_owner ? 125 : 100);
  }
}

TEST(SquareSum, DoesNotOverflowAFloat) {
  KernelCall call(OpKind::SquareSum, "n->", "n3");
  for (float& x : call.in(0)) x = 1e30F;
  call.run();
  EXPECT_NEAR(call.out_scalar(0) / 3e60, 1, 1e-6);
}

struct Setting {
  double clip, square_sum;
  bool decay;
};
constexpr Setting kSettings[] = {
    {0, 1e9, false}, {0, 1e9, true}, {1, 100, true}, {1, 0.25, false}, {0.5, 1, true}};

double clip_of(const Setting& setting) {
  if (setting.clip == 0) return 1;
  return std::min(1.0, setting.clip / (std::sqrt(setting.square_sum) + 1e-6));
}

void set(KernelCall& call, const Setting& setting) {
  call.call.attributes.clip = setting.clip;
  call.call.attributes.decay = setting.decay;
  call.call.attributes.epsilon = 1e-8;
  call.in_scalar(1) = setting.square_sum;
  call.call.scalars.learning_rate = 0.01;
  call.call.scalars.weight_decay = 0.1;
}

// Starts the outputs, which the optimizer reads, at values in [0, 1].
void set_state(KernelCall& call, std::size_t outputs) {
  for (std::size_t i = 0; i < outputs; ++i) {
    call.accumulate(i);
    for (float& x : call.out(i)) x = std::fabs(x);
  }
}

TEST(AdamW, FollowsPyTorch) {
  for (const Setting& setting : kSettings) {
    for (const char* sizes : {"n1", "n7", "n8195"}) {
      KernelCall call(OpKind::AdamW, "n,->n,n,n", sizes);
      set(call, setting);
      set_state(call, 3);
      call.call.attributes.beta1 = 0.9;
      call.call.attributes.beta2 = 0.95;
      std::vector<double> w(call.out(0).begin(), call.out(0).end());
      std::vector<double> m(call.out(1).begin(), call.out(1).end());
      std::vector<double> v(call.out(2).begin(), call.out(2).end());
      for (int step = 1; step <= 3; ++step) {
        call.call.scalars.step = step;
        call.run();
        for (std::size_t i = 0; i < w.size(); ++i) {
          const double g = static_cast<double>(call.in(0)[i]) * clip_of(setting);
          if (setting.decay) w[i] *= 1 - 0.01 * 0.1;
          m[i] = 0.9 * m[i] + 0.1 * g;
          v[i] = 0.95 * v[i] + 0.05 * g * g;
          const double m_hat = m[i] / (1 - std::pow(0.9, step));
          const double v_hat = v[i] / (1 - std::pow(0.95, step));
          w[i] -= 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8);
        }
        expect_close(call.out(0), w, 1e-6);
        expect_close(call.out(1), m, 1e-6);
        expect_close(call.out(2), v, 1e-6);
      }
    }
  }
}

TEST(Sgd, FollowsPyTorch) {
  for (const Setting& setting : kSettings) {
    for (const double momentum : {0.0, 0.9}) {
      KernelCall call(OpKind::Sgd, "n,->n,n", "n33");
      set(call, setting);
      set_state(call, 2);
      call.call.attributes.beta1 = momentum;
      std::vector<double> w(call.out(0).begin(), call.out(0).end());
      std::vector<double> velocity(call.out(1).begin(), call.out(1).end());
      call.run();
      for (std::size_t i = 0; i < w.size(); ++i) {
        double g = static_cast<double>(call.in(0)[i]) * clip_of(setting);
        if (setting.decay) g += 0.1 * w[i];
        if (momentum != 0) g = velocity[i] = momentum * velocity[i] + g;
        w[i] -= 0.01 * g;
      }
      expect_close(call.out(0), w, 1e-6);
      expect_close(call.out(1), velocity, 1e-6);  // unchanged without momentum
    }
  }
}

TEST(Optimizer, BadGradientsStayVisible) {
  for (const OpKind kind : {OpKind::AdamW, OpKind::Sgd}) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      KernelCall call(kind, kind == OpKind::AdamW ? "n,->n,n,n" : "n,->n,n", "n9");
      set(call, {1, 0, false});
      set_state(call, kind == OpKind::AdamW ? 3 : 2);
      call.call.scalars.step = 1;
      call.in(0)[4] = bad;
      call.in_scalar(1) = static_cast<double>(bad) * static_cast<double>(bad);
      call.run();
      EXPECT_TRUE(std::isnan(call.out(0)[4]));
    }
  }
}

}  // namespace
}  // namespace mega::kernels
