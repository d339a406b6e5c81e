#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

TEST(Pack, PutsPartsOfHeadsApartAndBack) {
  KernelCall pack(OpKind::Pack, "sbgd->xsbyd", "s3 b2 g6 d5 x2 y3");
  pack.run();
  KernelCall unpack(OpKind::Unpack, "xsbyd->sbgd", "s3 b2 g6 d5 x2 y3");
  std::copy(pack.out(0).begin(), pack.out(0).end(), unpack.in(0).begin());
  unpack.run();
  for (std::size_t s = 0; s < 3; ++s) {
    for (std::size_t b = 0; b < 2; ++b) {
      for (std::size_t g = 0; g < 6; ++g) {
        for (std::size_t d = 0; d < 5; ++d) {
          const std::size_t whole = ((s * 2 + b) * 6 + g) * 5 + d;
          const std::size_t apart = (((g / 3 * 3 + s) * 2 + b) * 3 + g % 3) * 5 + d;
          EXPECT_EQ(pack.out(0)[apart], pack.in(0)[whole]);
          EXPECT_EQ(unpack.out(0)[whole], pack.in(0)[whole]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mega::kernels
