// The arithmetic of thread_comm's collectives: blocks that any member may do for all.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/base/check.h"
#include "runtime/cpu/thread_group.h"

namespace mega::runtime {
namespace {

// A block is small enough for a core's L2 cache and large enough to make its claim cheap.
constexpr std::int64_t kBlockElements = 16 * 1024;

struct Sum {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};

struct Max {
  // A NaN on either side wins: it must stay visible.
  template <class T>
  static T of(T a, T b) {
    return b > a || std::isnan(b) ? b : a;
  }
};

template <class T>
const T* input(const CollectiveCall& call, std::int64_t offset) {
  return static_cast<const T*>(call.in) + offset;
}

template <class T>
T* output(const CollectiveCall& call, std::int64_t offset) {
  return static_cast<T*>(call.out) + offset;
}

// Reduces elements [offset, offset + count) of all inputs in member order and hands each finished
// strip to `store(strip, start, count)`. A strip stays in the L1 cache.
template <class T, class Op, class Store>
void reduce(std::span<const CollectiveCall> calls, std::int64_t offset, std::int64_t count,
            Store store) {
  constexpr std::int64_t kStrip = 1024;
  alignas(64) T strip[kStrip];
  for (std::int64_t start = offset; start < offset + count; start += kStrip) {
    const std::int64_t length = std::min(kStrip, offset + count - start);
    std::memcpy(strip, input<T>(calls[0], start), static_cast<std::size_t>(length) * sizeof(T));
    for (std::size_t m = 1; m < calls.size(); ++m) {
      const T* addend = input<T>(calls[m], start);
      for (std::int64_t i = 0; i < length; ++i) strip[i] = Op::of(strip[i], addend[i]);
    }
    store(strip, start, length);
  }
}

template <class T, class Op>
void reduce_block(std::span<const CollectiveCall> calls, std::int64_t block) {
  const std::int64_t count = calls[0].count;
  if (calls[0].kind == CollectiveKind::AllReduce) {
    const std::int64_t start = block * kBlockElements;
    reduce<T, Op>(calls, start, std::min(kBlockElements, count - start),
                  [&](const T* strip, std::int64_t at, std::int64_t length) {
                    for (const CollectiveCall& call : calls) {
                      std::memcpy(output<T>(call, at), strip,
                                  static_cast<std::size_t>(length) * sizeof(T));
                    }
                  });
    return;
  }
  const std::int64_t blocks = (count + kBlockElements - 1) / kBlockElements;
  const std::int64_t part = block / blocks;
  const std::int64_t start = block % blocks * kBlockElements;
  const CollectiveCall& owner = calls[static_cast<std::size_t>(part)];
  reduce<T, Op>(calls, part * count + start, std::min(kBlockElements, count - start),
                [&](const T* strip, std::int64_t at, std::int64_t length) {
                  std::memcpy(output<T>(owner, at - part * count), strip,
                              static_cast<std::size_t>(length) * sizeof(T));
                });
}

void gather_block(std::span<const CollectiveCall> calls, std::int64_t block) {
  const std::int64_t count = calls[0].count;
  const std::int64_t size = size_of(calls[0].dtype);
  const std::int64_t blocks = (count + kBlockElements - 1) / kBlockElements;
  const std::int64_t part = block / blocks;
  const std::int64_t start = block % blocks * kBlockElements;
  const auto bytes = static_cast<std::size_t>(std::min(kBlockElements, count - start) * size);
  const auto* from =
      static_cast<const std::byte*>(calls[static_cast<std::size_t>(part)].in) + start * size;
  for (const CollectiveCall& call : calls) {
    auto* to = static_cast<std::byte*>(call.out) + (part * count + start) * size;
    if (to != from) std::memcpy(to, from, bytes);
  }
}

}  // namespace

std::int64_t block_count(std::span<const CollectiveCall> calls) {
  const std::int64_t blocks = (calls[0].count + kBlockElements - 1) / kBlockElements;
  const auto parts = static_cast<std::int64_t>(calls.size());
  return calls[0].kind == CollectiveKind::AllReduce ? blocks : parts * blocks;
}

void run_block(std::span<const CollectiveCall> calls, std::int64_t block) {
  const CollectiveCall& call = calls[0];
  if (call.kind == CollectiveKind::AllGather) return gather_block(calls, block);
  const bool is_sum = call.combine == Combine::Sum;
  MEGA_CHECK(is_sum || call.combine == Combine::Max, "a reduction without sum or max");
  switch (call.dtype) {
    case DType::Fp32:
      return is_sum ? reduce_block<float, Sum>(calls, block)
                    : reduce_block<float, Max>(calls, block);
    case DType::Fp64:
      return is_sum ? reduce_block<double, Sum>(calls, block)
                    : reduce_block<double, Max>(calls, block);
    case DType::Int32:
      break;
  }
  MEGA_CHECK(false, "integers are not reduced");
}

std::string to_string(const CollectiveCall& call) {
  std::string text;
  switch (call.kind) {
    case CollectiveKind::AllReduce:
      text = "all_reduce";
      break;
    case CollectiveKind::ReduceScatter:
      text = "reduce_scatter";
      break;
    case CollectiveKind::AllGather:
      text = "all_gather";
      break;
  }
  text += " of " + std::to_string(call.count) + " " + std::string(name_of(call.dtype));
  if (call.combine == Combine::Sum) text += " (sum)";
  if (call.combine == Combine::Max) text += " (max)";
  return text;
}

}  // namespace mega::runtime
