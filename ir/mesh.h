// A mesh: ranks arranged along named axes. Axis names are labels; no code below the planner
// knows what "tp" means.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace mega {

struct Axis {
  std::string name;
  int size = 1;
  bool operator==(const Axis&) const = default;
};

// Axes outermost first: rank numbers are row-major over them.
struct Mesh {
  std::string name;
  std::vector<Axis> axes;
  bool operator==(const Mesh&) const = default;
};

// A set of axes of one mesh; bit i is mesh.axes[i]. Along several axes, members are counted
// row-major in mesh order, so the outermost axis is the major one.
struct AxisSet {
  std::uint32_t bits = 0;
  constexpr bool empty() const { return bits == 0; }
  constexpr bool contains(int axis) const { return (bits >> axis & 1U) != 0; }
  constexpr bool contains(AxisSet other) const { return (bits & other.bits) == other.bits; }
  static constexpr AxisSet of(int axis) { return {1U << axis}; }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) { return {a.bits | b.bits}; }
  friend constexpr AxisSet operator&(AxisSet a, AxisSet b) { return {a.bits & b.bits}; }
  friend constexpr AxisSet operator-(AxisSet a, AxisSet b) { return {a.bits & ~b.bits}; }
  constexpr auto operator<=>(const AxisSet&) const = default;
};

// Which ranks take part in a collective: all that differ from this rank only along `along`, or
// of those only the ones whose position along it is listed ("along pp{0,3}").
struct Group {
  int mesh = 0;  // index into Plan::meshes
  AxisSet along;
  std::vector<int> only;  // ascending positions along `along`; empty means all
  bool operator==(const Group&) const = default;
  auto operator<=>(const Group&) const = default;
};

int world_size(const Mesh& mesh);
int axis_index(const Mesh& mesh, const std::string& name);  // -1 when there is none
AxisSet all_axes(const Mesh& mesh);
AxisSet split_axes(const Mesh& mesh);  // those of more than one rank
int coordinate(const Mesh& mesh, int rank, int axis);
int extent(const Mesh& mesh, AxisSet along);  // product of the sizes
int position_along(const Mesh& mesh, int rank, AxisSet along);
// The rank that sits at `position` along `along` and shares this rank's other coordinates.
int rank_at(const Mesh& mesh, int rank, AxisSet along, int position);
int size_of(const Mesh& mesh, const Group& group);                         // members
std::vector<int> members(const Mesh& mesh, const Group& group, int rank);  // ascending position
std::string to_string(const Mesh& mesh, AxisSet along);                    // "dp,tp"
std::string to_string(const Mesh& mesh, const Group& group);               // "dp,tp" or "pp{0,3}"

}  // namespace mega
