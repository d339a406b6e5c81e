// Matrix products of any index string "A,B->C" or "A,B,bias->C" whose letters fall into
//   M  in A and C      N  in B and C      K  in A and B, contracted
// each one run of neighbouring letters in the same order in both operands, either run first:
// "sbh,grdh->sbgrd", "sbf,sbh->fh" and "sbn,nh->sbh" are all one GEMM with transposes. The bias
// has N's letters and is added to each of the M rows. attributes.accumulate adds to C.
// C may not be the buffer of an input.
#pragma once

#include <cstdint>

#include "kernels/call.h"

namespace mega::kernels {

// c = a b (+ c) with a [m,k], b [k,n], c [m,n] before transposes; leading dimensions are those of
// the memory as it lies.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_is_transposed = false;  // memory holds [k,m]
  bool b_is_transposed = false;  // memory holds [n,k]
  bool c_is_transposed = false;  // memory holds [n,m]
  bool operator==(const Product&) const = default;
};

// Aborts on an index that is no single GEMM: the planner has checked.
Product product_of(const Index& index, const Extents& extents);

}  // namespace mega::kernels
