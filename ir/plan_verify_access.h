// Which bytes a program's segments and transfers touch, boiled down to few pieces of memory.
// Internal to plan_verify.
//
// The bytes of a region are cut at every end of a buffer, and pieces that the same segments and
// transfers touch in the same way are one *atom*: the hundreds of activations that a forward
// writes and its backward reads are one. Following thousands of instructions then costs a handful
// of steps each.
//
//   buffers   |  a   |   b   |  c  |        f writes a, b, c   g reads a, b
//   atoms     |      0       |  1  |
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/plan_verify_report.h"

namespace mega::verifying {

struct Access {
  std::int32_t atom = 0;
  bool reads = false;  // what was there before; not what the segment wrote itself
  bool writes = false;
  auto operator<=>(const Access&) const = default;
};

struct Atom {
  Region region = Region::Persistent;
  int chunk = -1;
  BufferId example;  // a buffer of these bytes, for messages
};

struct AccessTable {
  std::vector<Atom> atoms;
  std::vector<std::vector<Access>> of_segment;  // by segment
  // By buffer: the atoms that a transfer of it touches; empty when nothing transfers it.
  std::vector<std::vector<std::int32_t>> of_transfer;
};

// Also proves, op by op, that every segment reads only scratch that it wrote, that no buffer is
// overwritten by another one that shares its bytes before its last use, and that outputs lie on
// inputs only where the op allows it.
AccessTable find_accesses(const Plan& plan, int program, Report& report);

}  // namespace mega::verifying
