// What members of a group get or sent side by side.
//   pack    [s,b,xy,...] -> [x,s,b,y,...]: the third dimension in x parts, part by part
//   unpack  [x,s,b,y,...] -> [s,b,xy,...]
// Neither works in place.
#pragma once

#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"

namespace mega::kernels {

// One launch row is one (s, b); `width` elements of each part belong to it.
struct PackRows {
  const float* in;
  float* out;
  std::int64_t rows, parts, width;
  bool inverse;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t whole = (row * parts + part) * width;
      const std::int64_t apart = (part * rows + row) * width;
      const float* from = in + (inverse ? apart : whole);
      float* to = out + (inverse ? whole : apart);
      lanes.for_each(width, [=](std::int64_t i) { to[i] = from[i]; });
    }
  }
};

template <class Stream>
void pack(Stream& stream, const Call& call, bool inverse) {
  const Operand& apart = inverse ? call.inputs[0] : call.outputs[0];
  const std::int64_t parts = apart.shape[0];
  const std::int64_t rows = apart.shape[1] * apart.shape[2];
  launch_rows(stream, rows,
              PackRows{floats(call.inputs[0]), mutable_floats(call.outputs[0]), rows, parts,
                       count_of(apart) / parts / rows, inverse});
}

}  // namespace mega::kernels
