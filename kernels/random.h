// Random numbers that depend on what they are for and on nothing else: no state, so that every
// layout, thread and recomputation draws the same.
//
// Philox4x32-10 (Salmon et al. 2011) turns a key and a counter into four random words. The value
// of element i (row-major in the *global*, unpadded tensor) of a tensor `id` under a seed:
//   key     = (low 32 bits of seed, low 32 bits of id)
//   counter = (low 32 bits of i / 4, high 32 bits of i / 4, high 32 bits of id, of seed)
//   w0..w3  = philox(key, counter)
//   u = (w0 + 1) / 2^32,  v = w1 / 2^32,  radius = sqrt(-2 ln u)
//   normals 0, 1 = radius cos(2 pi v), radius sin(2 pi v); 2 and 3 likewise from w2, w3
//   value = float(standard deviation * normal of i mod 4)
// all in double up to the last conversion, so that libraries' last bits don't show.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"

namespace mega::kernels {

struct Words {
  std::uint32_t word[4];
};

MEGA_HD inline Words philox(std::uint32_t key0, std::uint32_t key1, Words counter) {
  auto& c = counter.word;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * c[2];
    const Words next = {
        {static_cast<std::uint32_t>(second >> 32) ^ c[1] ^ key0, static_cast<std::uint32_t>(second),
         static_cast<std::uint32_t>(first >> 32) ^ c[3] ^ key1, static_cast<std::uint32_t>(first)}};
    counter = next;
    key0 += 0x9E3779B9;  // the golden ratio and the root of three, as fractions of 2^32
    key1 += 0xBB67AE85;
  }
  return counter;
}

struct Normals {
  double value[4];
};

// The normals of elements 4 block .. 4 block + 3.
MEGA_HD inline Normals normals(std::uint64_t seed, std::uint64_t id, std::uint64_t block) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const Words words = philox(low(seed), low(id), {{low(block), high(block), high(id), high(seed)}});
  constexpr double kUnit = 1.0 / 4294967296.0;
  constexpr double kTurn = 6.283185307179586;
  Normals result{};
  for (int pair = 0; pair < 2; ++pair) {
    const double u = (static_cast<double>(words.word[2 * pair]) + 1) * kUnit;
    const double angle = kTurn * (static_cast<double>(words.word[2 * pair + 1]) * kUnit);
    const double radius = std::sqrt(-2 * std::log(u));
    result.value[2 * pair] = radius * std::cos(angle);
    result.value[2 * pair + 1] = radius * std::sin(angle);
  }
  return result;
}

// init_normal: outputs[0] is the part of the tensor that call.box names; attributes.value is the
// standard deviation. Elements at or past the unpadded shape are 0. A row is a line of the last
// dimension.
struct InitNormalRows {
  static constexpr int kMaxDimensions = 8;

  float* out;
  std::int64_t shape[kMaxDimensions];  // local
  std::int64_t start[kMaxDimensions];
  std::int64_t global_shape[kMaxDimensions];
  int dimensions;
  std::uint64_t seed, id;
  double deviation;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const int last = dimensions - 1;
    bool is_padding = false;
    std::int64_t base = 0;  // global index of the line's first global element
    std::int64_t rest = row, stride = global_shape[last];
    for (int i = last - 1; i >= 0; --i) {
      const std::int64_t coordinate = start[i] + rest % shape[i];
      rest /= shape[i];
      is_padding = is_padding || coordinate >= global_shape[i];
      base += coordinate * stride;
      stride *= global_shape[i];
    }
    float* line = out + row * shape[last];
    const std::int64_t inside = is_padding ? 0 : global_shape[last] - start[last];
    const std::int64_t count = inside < 0 ? 0 : inside < shape[last] ? inside : shape[last];
    lanes.for_each(shape[last] - count, [=](std::int64_t i) { line[count + i] = 0; });
    if (count == 0) return;
    const std::int64_t first = base + start[last];
    const std::int64_t block = first / 4;
    lanes.for_each((first + count - 1) / 4 - block + 1, [=, this](std::int64_t i) {
      const Normals four = normals(seed, id, static_cast<std::uint64_t>(block + i));
      for (std::int64_t k = 0; k < 4; ++k) {
        const std::int64_t element = (block + i) * 4 + k - first;
        if (element < 0 || element >= count) continue;
        line[element] = static_cast<float>(deviation * four.value[k]);
      }
    });
  }
};

template <class Stream>
void init_normal(Stream& stream, const Call& call) {
  const Operand& out = call.outputs[0];
  const std::size_t dimensions = out.shape.size();
  MEGA_CHECK(dimensions >= 1 && dimensions <= InitNormalRows::kMaxDimensions &&
                 call.box.global_shape.size() == dimensions && call.box.start.size() == dimensions,
             std::to_string(dimensions) + " dimensions");
  InitNormalRows kernel{mutable_floats(out),
                        {},
                        {},
                        {},
                        static_cast<int>(dimensions),
                        call.scalars.seed,
                        call.box.key,
                        call.attributes.value};
  for (std::size_t i = 0; i < dimensions; ++i) {
    kernel.shape[i] = out.shape[i];
    kernel.start[i] = call.box.start[i];
    kernel.global_shape[i] = call.box.global_shape[i];
  }
  launch_rows(stream, count_of(out) / last_dimension(out), kernel);
}

}  // namespace mega::kernels
