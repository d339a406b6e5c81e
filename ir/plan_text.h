// The plan as text: what megaplan writes and megarun reads.
//
// One statement a line, '#' starts a comment, the first line is "megaplan 1":
//
//   mesh dense pp=2 tp=2                      axes, outermost first
//   queue compute                             the first runs what says nothing else
//   program stage0 persistent=1024 scratch=512
//     chunk front slots=2 slot_bytes=256      "of front" is left out where there is one chunk
//     persistent w [8,4] @0 parameter h.w [16/tp,4]
//     scratch y [4,8] @0                      fp32 unless it says otherwise, offset in bytes
//     slot x [4,4] @0                         offset within one slot
//     persistent w.grad [8,4] @512 gradient = [16/tp,4]     '=': of the tensor "w"
//     view w0 [4,4] in w @0
//     view w1 [4,4] in w @0+64*tp             64 bytes further on with each step along tp
//     segment forward of front ns=1500
//       matmul:sb,nb->sn x w -> y | scale=2   letters only where they aren't the op's own
//     sequence train
//       run forward mb=0 slot=0
//       exchange pp send x mb=0 slot=0 to +1, receive d mb=0 slot=0 from +1 on p2p after compute
//       repeat 6 as i
//         run forward mb=i+1 slot=mb%2 after p2p~1       waits for all of p2p but the latest
//       end
//   ranks by pp: stage0 stage1                "stage0*3" is three times stage0
//
// Sets of axes are "dp+cp", of a mesh that isn't the first "expert@ep", a group of some members
// "pp{0,3}". Names of other than letters, digits and _ . - / : are quoted: "a \"b\" \x07".
// Versions: a reader refuses every version but its own; anything that changes what a text means,
// or that older readers can't read, makes a new one.
#pragma once

#include <string>

#include "ir/base/result.h"
#include "ir/plan.h"

namespace mega {

// parse_plan(file, print_plan(plan)) == plan, for every plan and any printable names.
std::string print_plan(const Plan& plan);

// `file` names the text in diagnostics. Reports every bad line (the first fifty in full);
// refuses texts over kMaxPlanBytes, unknown versions, duplicate names, sizes that overflow,
// arenas over 2^47 bytes and loops that come to more than kMaxInstructions. A plan that parses is
// well-formed (ids in range), not yet verified.
Result<Plan> parse_plan(const std::string& file, const std::string& text);

inline constexpr std::int64_t kMaxPlanBytes = std::int64_t{256} << 20;
inline constexpr std::int64_t kMaxArenaBytes = std::int64_t{1} << 47;
inline constexpr std::int64_t kMaxInstructions = 20'000'000;  // of all programs, loops counted out

}  // namespace mega
