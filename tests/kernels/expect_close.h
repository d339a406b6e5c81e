// Compares a kernel's floats with a reference in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>

namespace mega::kernels {

// |actual - expected| <= tolerance * (1 + |expected|), for all elements.
inline void expect_close(std::span<const float> actual, std::span<const double> expected,
                         double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i],
                tolerance * (1 + std::fabs(expected[i])))
        << "element " << i;
  }
}

}  // namespace mega::kernels
