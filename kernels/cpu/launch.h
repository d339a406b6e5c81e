// Runs kernels on the CPU: on the calling thread, or split over the stream's threads. Parts of a
// row are never split, so the bits don't depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/dispatch.h"
#include "kernels/portable.h"

namespace mega::kernels {

// part(begin, end) over ranges that cover [0, count), each of at least `grain`.
template <class Part>
void split(const CpuStream& stream, std::int64_t count, std::int64_t grain, const Part& part) {
  const std::int64_t parts = std::min<std::int64_t>(stream.threads, count / grain);
  if (parts <= 1) {  // no OpenMP team, not even one of one thread
    part(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(parts))
  for (std::int64_t i = 0; i < parts; ++i) part(count * i / parts, count * (i + 1) / parts);
}

// kernel(row, lanes) for each row.
template <class Kernel>
void launch_rows(CpuStream& stream, std::int64_t rows, const Kernel& kernel) {
  split(stream, rows, 1, [&kernel](std::int64_t begin, std::int64_t end) {
    const Kernel local = kernel;  // a copy that no store through a float pointer can change
    for (std::int64_t row = begin; row < end; ++row) local(row, OneLane{});
  });
}

// kernel(i) for each element.
template <class Kernel>
void launch_elements(CpuStream& stream, std::int64_t count, const Kernel& kernel) {
  constexpr std::int64_t kGrain = 4096;
  split(stream, count, kGrain, [&kernel](std::int64_t begin, std::int64_t end) {
    const Kernel local = kernel;
    OneLane{}.for_each(end - begin, [begin, local](std::int64_t i) { local(begin + i); });
  });
}

// kernel.finish(sum of kernel(i) over [0, count), in double). Always in the same 64 parts.
template <class Kernel>
void launch_total(CpuStream& stream, std::int64_t count, const Kernel& kernel) {
  constexpr std::int64_t kParts = 64;
  double totals[kParts];
  split(stream, kParts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t first = count * part / kParts;
      const std::int64_t length = count * (part + 1) / kParts - first;
      totals[part] = OneLane{}.sum_double(
          length, [local = kernel, first](std::int64_t i) { return local(first + i); });
    }
  });
  double total = 0;
  for (const double part : totals) total += part;
  kernel.finish(total);
}

}  // namespace mega::kernels
