// Each member of a group sends every other a part of its own: as many elements to all, or rows
// that lie in groups and whose numbers are only known when they are there.
#pragma once

#include <cstdint>

#include "ir/base/result.h"
#include "runtime/ready.h"

namespace mega::runtime {

// The input is parts of equal size, one for each set of members that holds the same; member p
// belongs to set p / stride modulo the number of sets (stride 0 means 1). The output is what this
// member's part is on every member, in member order.
Status all_to_all(const ReadyOp& op, std::int64_t slot);

// Rows [a,h] in groups, one per entry of `sent` [1,e]. A set of members as above holds e / sets
// neighbouring groups; `received` [members, e / sets] says how many rows of each come from whom.
//   forward  out [c,h]: the rows of the first group from member 0, from member 1, ..., of the
//            second ...; fails when there are more than c
//   inverse  rows come back to where they were sent from: out [u,h] holds as many copies of [a,h]
//            as members hold the same groups, each from another member
Status all_to_all_v(const ReadyOp& op, std::int64_t slot);

}  // namespace mega::runtime
