// Real functions of one float that vectorize and give the same bits on every machine with the
// same kind of multiply-add: libm's are calls, and no two libraries agree on the last bit.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/portable.h"

namespace mega::kernels {

// a * b + c in one rounding where the machine has the instruction, in two where it would be a
// slow library call. Explicit, because the compiler is told not to contract on its own: a loop's
// vector body and its tail must round alike.
MEGA_HD inline float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDA_ARCH__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// e^x, at most 2 units in the last place off; NaN stays NaN, large x gives inf, small x gives 0
// through the denormals. e^x = 2^n e^r with |r| <= ln 2 / 2, and e^r by its Taylor series, whose
// first omitted term r^8/8! is 5e-9.
MEGA_HD inline float exponential(float x) {
  x = x > 89.0F ? 89.0F : x;
  x = x < -110.0F ? -110.0F : x;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the mantissa.
  constexpr float kRound = 12582912.0F;
  const float shifted = multiply_add(x, 1.44269504F, kRound);
  const float n = shifted - kRound;
  const std::int32_t exponent =
      std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  // ln 2 in two parts: n times the first is exact.
  float r = multiply_add(n, -0.693359375F, x);
  r = multiply_add(n, 2.12194440e-4F, r);
  float series = 1.0F / 5040;
  series = multiply_add(series, r, 1.0F / 720);
  series = multiply_add(series, r, 1.0F / 120);
  series = multiply_add(series, r, 1.0F / 24);
  series = multiply_add(series, r, 1.0F / 6);
  series = multiply_add(series, r, 0.5F);
  series = multiply_add(series, r, 1.0F);
  series = multiply_add(series, r, 1.0F);
  // 2^n in two factors, since n may be 128 or below -126.
  const std::int32_t half = exponent >> 1;
  const float low = std::bit_cast<float>((half + 127) << 23);
  const float high = std::bit_cast<float>((exponent - half + 127) << 23);
  return series * low * high;
}

// value = 1 / (1 + e^-x) and complement = 1 - value, both exact to a few units in the last place
// in both tails.
struct Sigmoid {
  float value;
  float complement;

  MEGA_HD static Sigmoid at(float x) {
    const float small = exponential(-std::fabs(x));
    const float large = 1.0F / (1.0F + small);
    const float rest = small * large;
    return {x < 0 ? rest : large, x < 0 ? large : rest};
  }
};

// The complementary error function of x >= 0 times e^(x^2), relative error 6e-8: a polynomial in
// t = 1 / (1 + x/2) interpolated at Chebyshev nodes over x in [0, 12].
MEGA_HD inline float scaled_erfc(float x) {
  const float t = 1.0F / multiply_add(0.5F, x, 1.0F);
  float p = -6.055896124e-02F;
  p = multiply_add(p, t, 2.916569317e-01F);
  p = multiply_add(p, t, -5.013931215e-01F);
  p = multiply_add(p, t, 2.936585913e-01F);
  p = multiply_add(p, t, -3.683884173e-02F);
  p = multiply_add(p, t, 2.067482716e-01F);
  p = multiply_add(p, t, 2.421519318e-01F);
  p = multiply_add(p, t, 2.824948752e-01F);
  p = multiply_add(p, t, 2.820802749e-01F);
  return p * t;
}

}  // namespace mega::kernels
