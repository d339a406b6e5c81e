// One kernel body, two machines.
//
// A row kernel is a struct of pointers and sizes with
//     template <class Lanes> MEGA_HD void operator()(std::int64_t row, Lanes lanes) const;
// It is written once, against a team of lanes that shares a row: on the CPU a team of one
// (OneLane below), on a GPU a warp. cpu/launch.h runs it over rows. Rules of a body:
//   - lanes.for_each hands index i to the same lane in every loop, so what a body wrote at i in
//     one loop it may read at i in the next; nothing else passes between lanes but the sums.
//   - iterations must not depend on each other; an output may be the very buffer of an input.
//   - sums run over eight accumulators in a fixed order: they vectorize, and give the same bits
//     at every optimization level and vector width.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define MEGA_HD __host__ __device__
#else
#define MEGA_HD
#endif

// Promises that iterations of the next loop are independent even where its pointers are equal;
// without it, loops that work in place fall back to scalar code.
#if defined(__clang__)
#define MEGA_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define MEGA_INDEPENDENT _Pragma("GCC ivdep")
#else
#define MEGA_INDEPENDENT
#endif

namespace mega::kernels {

inline constexpr int kAccumulators = 8;
// Columns that column_sums keeps in registers or L1 at a time.
inline constexpr std::int64_t kColumnBlock = 128;
MEGA_HD constexpr std::int64_t column_blocks(std::int64_t columns) {
  return (columns + kColumnBlock - 1) / kColumnBlock;
}

// A team of one: the reference semantics of every Lanes operation.
struct OneLane {
  // body(i) for i in [0, count).
  template <class Body>
  MEGA_HD void for_each(std::int64_t count, Body body) const {
    MEGA_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) body(i);
  }

  // body(i) for this i alone, on the lane to which for_each gives it.
  template <class Body>
  MEGA_HD void at(std::int64_t i, Body body) const {
    body(i);
  }

  // Sum of term(i) over [0, count).
  template <class Term>
  MEGA_HD float sum(std::int64_t count, Term term) const {
    return add_up<float>(count, term);
  }
  template <class Term>
  MEGA_HD double sum_double(std::int64_t count, Term term) const {
    return add_up<double>(count, term);
  }

  // Largest term(i), -inf of none. A NaN wins over every number, so that it stays visible.
  // Compared as integers: exact in any order, and compilers vectorize it.
  template <class Term>
  MEGA_HD float max(std::int64_t count, Term term) const {
    constexpr std::int32_t kInfinity = 0x7F800000;
    std::int32_t largest = ordered(std::bit_cast<std::int32_t>(-__builtin_inff()));
    std::int32_t magnitude = 0;  // above infinity's when there is a NaN
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t bits = std::bit_cast<std::int32_t>(static_cast<float>(term(i)));
      const std::int32_t value = ordered(bits);
      const std::int32_t absolute = bits & 0x7FFFFFFF;
      largest = value > largest ? value : largest;
      magnitude = absolute > magnitude ? absolute : magnitude;
    }
    return std::bit_cast<float>(magnitude > kInfinity ? magnitude : ordered(largest));
  }

  // store(column, total of term(row, column) over the rows, as double) for each column: row by
  // row in order, so that memory is read as it lies. In double, because a gradient of many rows
  // must not depend on how they are split over devices.
  template <class Term, class Store>
  MEGA_HD void column_sums(std::int64_t columns, std::int64_t rows, Term term, Store store) const {
    for (std::int64_t start = 0; start < columns; start += kColumnBlock) {
      const std::int64_t width = columns - start < kColumnBlock ? columns - start : kColumnBlock;
      double totals[kColumnBlock];
      for (std::int64_t i = 0; i < width; ++i) totals[i] = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        MEGA_INDEPENDENT
        for (std::int64_t i = 0; i < width; ++i) {
          totals[i] += static_cast<double>(term(row, start + i));
        }
      }
      for (std::int64_t i = 0; i < width; ++i) store(start + i, totals[i]);
    }
  }

 private:
  // Maps the bits of a float to an integer of the same order, and back.
  MEGA_HD static std::int32_t ordered(std::int32_t bits) {
    return bits ^ ((bits >> 31) & 0x7FFFFFFF);
  }

  template <class Real, class Term>
  MEGA_HD static Real add_up(std::int64_t count, Term term) {
    Real parts[kAccumulators] = {};
    const std::int64_t whole = count / kAccumulators * kAccumulators;
    for (std::int64_t i = 0; i < whole; i += kAccumulators) {
      for (int k = 0; k < kAccumulators; ++k) parts[k] += static_cast<Real>(term(i + k));
    }
    for (std::int64_t i = whole; i < count; ++i) parts[i - whole] += static_cast<Real>(term(i));
    return ((parts[0] + parts[4]) + (parts[2] + parts[6])) +
           ((parts[1] + parts[5]) + (parts[3] + parts[7]));
  }
};

}  // namespace mega::kernels
