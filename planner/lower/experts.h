// Where the rows that go to experts live.
//
// The same ranks of a stage form two meshes: the dense one, along which tokens lie, and
//   expert   pp edp ep etp   in the rank order's order, ep where it names ep, edp and etp where it
//                            names dp and tp
// Experts are split over ep, each one's ffn_hidden over etp. Every rank of a stage holds tokens of
// its own, and each letter of build_experts.h has one place:
//   dense    a u  rows of the tokens here    z  their one count         all axes that split tokens
//   expert   x  over ep    m  over etp    c  edp and ep    y  edp
// The members along ep and etp exchange rows; ranks that hold the same experts (etp) are sent the
// same ones and return addends, u / a copies of the rows. So a gradient of an expert's weights
// holds addends along edp alone.
#pragma once

#include <cstdint>

#include "ir/op.h"
#include "planner/lower/sharding.h"

namespace mega::planner {

// Adds the second mesh and the letters of experts; `placement` has everything else.
void place_experts(const ModelGraph& graph, const Strategy& strategy, Placement& placement);

// Rows of the letter c on the busiest rank, as a share of those planned: 1 without a second mesh.
double expected_rows(const Placement& placement, double imbalance);

bool is_routed(OpKind kind);      // an op of the part of a layer that is told of here
bool is_of_experts(char letter);  // whose axes are those of the second mesh, if there is one

// Axes along which the output `letters` of a routed op holds addends, when `axes` splits its
// letters: those of contracted letters, but for those that split a letter of the output as well
// (a rank sees rows of its own experts only).
AxisSet addends(OpKind kind, const Index& index, const std::string& letters,
                const std::array<AxisSet, 26>& axes);

// Ranks that exchange rows, and how they are ordered: Attributes::stride of all_to_all_v.
Group row_group(const Placement& placement);
std::int64_t row_stride(const Placement& placement);

}  // namespace mega::planner
