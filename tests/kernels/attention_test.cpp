#include "kernels/attention.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

constexpr double kScale = 0.3;
const char* const kForward = "sbgrd,tbgd,tbgd->sbgrd,sbgr";
const char* const kBackward = "sbgrd,sbgrd,tbgd,tbgd,sbgrd,sbgr->sbgrd,tbgd,tbgd";

struct Setting {
  const char* sizes;
  bool causal;
  std::int64_t origin;
};
// Beside one tile, on its edge, over it; grouped heads; keys before and after the queries.
const Setting kSettings[] = {
    {"s1 t1 b1 g1 r1 d1", true, 0},      {"s7 t7 b2 g2 r1 d5", true, 0},
    {"s5 t9 b1 g2 r3 d7", false, 0},     {"s5 t9 b1 g2 r3 d7", true, 4},
    {"s64 t64 b1 g1 r2 d8", true, 0},    {"s65 t65 b1 g1 r1 d33", true, 0},
    {"s130 t130 b1 g1 r2 d16", true, 0}, {"s70 t200 b1 g1 r1 d4", true, 130},
    {"s33 t140 b2 g1 r1 d4", false, 0},  {"s5 t150 b1 g1 r2 d4", true, 0},
    {"s3 t70 b1 g1 r1 d4", true, 64},    {"s4 t4 b1 g1 r1 d4", true, -2}};

// Plain attention in double.
struct Reference {
  std::int64_t s, t, b, g, r, d, origin;
  bool causal;
  std::vector<double> o, lse, dq, dk, dv;

  Reference(const Extents& size, const Setting& setting)
      : s(size['s']),
        t(size['t']),
        b(size['b']),
        g(size['g']),
        r(size['r']),
        d(size['d']),
        origin(setting.origin),
        causal(setting.causal),
        o(count(size.product("sbgrd"))),
        lse(count(size.product("sbgr"))),
        dq(o.size()),
        dk(count(size.product("tbgd"))),
        dv(dk.size()) {}
  static std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

  std::size_t query_at(std::int64_t i, std::int64_t head) const {
    return count((i * b * g * r + head) * d);
  }
  std::size_t key_at(std::int64_t j, std::int64_t head) const {
    return count((j * b * g + head / r) * d);
  }
  bool sees(std::int64_t i, std::int64_t j) const { return !causal || j <= origin + i; }

  void forward(std::span<const float> q, std::span<const float> k, std::span<const float> v) {
    for (std::int64_t head = 0; head < b * g * r; ++head) {
      for (std::int64_t i = 0; i < s; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < t; ++j) {
          if (!sees(i, j)) continue;
          const double p = std::exp(kScale * dot(q, query_at(i, head), k, key_at(j, head)));
          sum += p;
          for (std::size_t e = 0; e < count(d); ++e) {
            o[query_at(i, head) + e] += p * static_cast<double>(v[key_at(j, head) + e]);
          }
        }
        for (std::size_t e = 0; e < count(d); ++e) {
          if (sum > 0) o[query_at(i, head) + e] /= sum;
        }
        lse[count(i * b * g * r + head)] = std::log(sum);
      }
    }
  }

  void backward(std::span<const float> dout, std::span<const float> q, std::span<const float> k,
                std::span<const float> v) {
    for (std::int64_t head = 0; head < b * g * r; ++head) {
      for (std::int64_t i = 0; i < s; ++i) {
        const std::size_t at = query_at(i, head);
        double delta = 0;
        for (std::size_t e = 0; e < count(d); ++e) {
          delta += static_cast<double>(dout[at + e]) * o[at + e];
        }
        for (std::int64_t j = 0; j < t; ++j) {
          if (!sees(i, j)) continue;
          const std::size_t key = key_at(j, head);
          const double p = std::exp(kScale * dot(q, at, k, key) - lse[count(i * b * g * r + head)]);
          const double ds = p * (dot(dout, at, v, key) - delta) * kScale;
          for (std::size_t e = 0; e < count(d); ++e) {
            dv[key + e] += p * static_cast<double>(dout[at + e]);
            dk[key + e] += ds * static_cast<double>(q[at + e]);
            dq[at + e] += ds * static_cast<double>(k[key + e]);
          }
        }
      }
    }
  }

 private:
  double dot(std::span<const float> x, std::size_t at_x, std::span<const float> y,
             std::size_t at_y) const {
    double sum = 0;
    for (std::size_t e = 0; e < count(d); ++e) {
      sum += static_cast<double>(x[at_x + e]) * static_cast<double>(y[at_y + e]);
    }
    return sum;
  }
};

void set(KernelCall& call, const Setting& setting) {
  call.call.attributes.scale = kScale;
  call.call.attributes.causal = setting.causal;
  call.call.origin = setting.origin;
}

TEST(Attention, MatchesPlainAttention) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.sizes);
    KernelCall call(OpKind::Attention, kForward, setting.sizes);
    set(call, setting);
    for (float& q : call.in(0)) q *= 4;
    Reference expected(call.call.extents, setting);
    expected.forward(call.in(0), call.in(1), call.in(2));
    call.run();
    expect_close(call.out(0), expected.o, 2e-6);
    for (std::size_t i = 0; i < expected.lse.size(); ++i) {
      if (std::isinf(expected.lse[i])) {
        ASSERT_EQ(static_cast<double>(call.out(1)[i]), expected.lse[i]);
      } else {
        ASSERT_NEAR(call.out(1)[i], expected.lse[i], 4e-6);
      }
    }
  }
}

TEST(AttentionBackward, MatchesPlainAttention) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.sizes);
    KernelCall call(OpKind::AttentionBackward, kBackward, setting.sizes);
    set(call, setting);
    Reference expected(call.call.extents, setting);
    expected.forward(call.in(1), call.in(2), call.in(3));
    for (std::size_t i = 0; i < expected.o.size(); ++i) {
      call.in(4)[i] = static_cast<float>(expected.o[i]);
    }
    for (std::size_t i = 0; i < expected.lse.size(); ++i) {
      call.in(5)[i] = static_cast<float>(expected.lse[i]);
    }
    expected.backward(call.in(0), call.in(1), call.in(2), call.in(3));
    call.run();
    expect_close(call.out(0), expected.dq, 4e-6);
    expect_close(call.out(1), expected.dk, 4e-6);
    expect_close(call.out(2), expected.dv, 4e-6);
  }
}

// The reference's backward itself, by differences of its forward.
TEST(AttentionBackward, ReferenceIsTheSlope) {
  const Setting setting = {"s4 t4 b1 g1 r2 d3", true, 0};
  KernelCall call(OpKind::AttentionBackward, kBackward, setting.sizes);
  Reference at(call.call.extents, setting);
  at.forward(call.in(1), call.in(2), call.in(3));
  at.backward(call.in(0), call.in(1), call.in(2), call.in(3));
  const auto loss = [&] {
    Reference moved(call.call.extents, setting);
    moved.forward(call.in(1), call.in(2), call.in(3));
    double total = 0;
    for (std::size_t i = 0; i < moved.o.size(); ++i) {
      total += static_cast<double>(call.in(0)[i]) * moved.o[i];
    }
    return total;
  };
  const std::vector<double>* gradients[] = {&at.dq, &at.dk, &at.dv};
  for (std::size_t input = 0; input < 3; ++input) {
    for (std::size_t i = 0; i < call.in(input + 1).size(); ++i) {
      float& x = call.in(input + 1)[i];
      const float before = x;
      x = before + 0x1p-9F;
      const double above = loss();
      const double step_up = static_cast<double>(x) - static_cast<double>(before);
      x = before - 0x1p-9F;
      const double below = loss();
      const double step_down = static_cast<double>(before) - static_cast<double>(x);
      x = before;
      ASSERT_NEAR((*gradients[input])[i], (above - below) / (step_up + step_down), 1e-5);
    }
  }
}

TEST(Attention, SurvivesLargeScores) {
  KernelCall call(OpKind::Attention, kForward, "s100 t100 b1 g1 r1 d8");
  set(call, {"", true, 0});
  for (float& q : call.in(0)) q *= 1e4F;
  call.run();
  for (const float o : call.out(0)) ASSERT_TRUE(std::fabs(o) <= 1.001F);
}

TEST(Attention, KeepsNan) {
  KernelCall call(OpKind::Attention, kForward, "s80 t80 b1 g1 r1 d4");
  set(call, {"", true, 0});
  call.in(1)[70 * 4] = std::numeric_limits<float>::quiet_NaN();
  call.run();
  for (std::size_t i = 0; i < 80; ++i) {
    EXPECT_EQ(std::isnan(call.out(0)[i * 4]), i >= 70) << i;
    EXPECT_EQ(std::isnan(call.out(1)[i]), i >= 70) << i;
  }
}

}  // namespace
}  // namespace mega::kernels
