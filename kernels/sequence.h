// Which positions of the sequence a rank's rows are at.
//
// Without attributes.parts, row i is at position origin + i. With it the sequence of
// attributes.length positions is cut into 2 parts chunks, and the rows count through chunks
//   0, 2 parts - 1 | 1, 2 parts - 2 | 2, ...
// so that each of the parts (two chunks side by side) has as many visible keys as any other under
// a causal mask ("zig-zag"; Brandon et al. 2023 for the imbalance that it removes). origin then
// counts rows of that order.
#pragma once

#include <cstdint>

#include "kernels/call.h"
#include "kernels/portable.h"

namespace mega::kernels {

struct Sequence {
  std::int64_t origin = 0;
  std::int64_t parts = 0;  // 0: rows are in order
  std::int64_t chunk = 0;  // positions of one

  MEGA_HD std::int64_t position(std::int64_t row) const {
    const std::int64_t at = origin + row;
    if (parts == 0) return at;
    const std::int64_t part = at / (2 * chunk);
    const std::int64_t inside = at % (2 * chunk);
    if (inside < chunk) return part * chunk + inside;
    return (2 * parts - 1 - part) * chunk + inside - chunk;
  }

  // The row at a position; outside of this rank's rows when another rank has it.
  MEGA_HD std::int64_t row(std::int64_t position) const {
    if (parts == 0) return position - origin;
    const std::int64_t at = position / chunk;
    const std::int64_t inside = position % chunk;
    const std::int64_t part = at < parts ? at : 2 * parts - 1 - at;
    return part * 2 * chunk + (at < parts ? inside : chunk + inside) - origin;
  }

  // Rows from `row` on whose positions follow each other.
  MEGA_HD std::int64_t run(std::int64_t row) const {
    return parts == 0 ? INT64_MAX : chunk - (origin + row) % chunk;
  }
};

inline Sequence sequence_at(const Attributes& attributes, std::int64_t origin) {
  if (attributes.parts == 0) return {origin, 0, 0};
  return {origin, attributes.parts, attributes.length / (2 * attributes.parts)};
}

inline Sequence sequence_of(const Call& call) {
  return sequence_at(call.attributes, call.origin);
}

// Of the keys of attention: all of them, or the part that has moved attributes.shift members on
// from the one that it belongs to.
inline Sequence key_sequence_of(const Call& call, std::int64_t keys) {
  const Attributes& attributes = call.attributes;
  if (attributes.parts == 0 || keys == attributes.length) return sequence_at(attributes, 0);
  const std::int64_t part = call.origin / keys - attributes.shift + attributes.parts;
  return sequence_at(attributes, part % attributes.parts * keys);
}

}  // namespace mega::kernels
