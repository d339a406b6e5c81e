#include "ir/mesh.h"

#include "ir/base/check.h"

namespace mega {
namespace {

// How far apart in rank numbers neighbours along `axis` are.
int stride(const Mesh& mesh, int axis) {
  int step = 1;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < mesh.axes.size(); ++i) {
    step *= mesh.axes[i].size;
  }
  return step;
}

int axis_count(const Mesh& mesh) {
  return static_cast<int>(mesh.axes.size());
}

int axis_size(const Mesh& mesh, int axis) {
  return mesh.axes[static_cast<std::size_t>(axis)].size;
}

}  // namespace

int world_size(const Mesh& mesh) {
  return extent(mesh, all_axes(mesh));
}

int axis_index(const Mesh& mesh, const std::string& name) {
  for (int i = 0; i < axis_count(mesh); ++i) {
    if (mesh.axes[static_cast<std::size_t>(i)].name == name) return i;
  }
  return -1;
}

AxisSet all_axes(const Mesh& mesh) {
  return {static_cast<std::uint32_t>((1ULL << mesh.axes.size()) - 1)};
}

AxisSet split_axes(const Mesh& mesh) {
  AxisSet axes;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    if (mesh.axes[i].size > 1) axes = axes | AxisSet::of(static_cast<int>(i));
  }
  return axes;
}

int coordinate(const Mesh& mesh, int rank, int axis) {
  return rank / stride(mesh, axis) % axis_size(mesh, axis);
}

int extent(const Mesh& mesh, AxisSet along) {
  int product = 1;
  for (int i = 0; i < axis_count(mesh); ++i) {
    if (along.contains(i)) product *= axis_size(mesh, i);
  }
  return product;
}

int position_along(const Mesh& mesh, int rank, AxisSet along) {
  int position = 0;
  for (int i = 0; i < axis_count(mesh); ++i) {
    if (along.contains(i)) position = position * axis_size(mesh, i) + coordinate(mesh, rank, i);
  }
  return position;
}

int rank_at(const Mesh& mesh, int rank, AxisSet along, int position) {
  for (int i = axis_count(mesh) - 1; i >= 0; --i) {
    if (!along.contains(i)) continue;
    rank += (position % axis_size(mesh, i) - coordinate(mesh, rank, i)) * stride(mesh, i);
    position /= axis_size(mesh, i);
  }
  return rank;
}

int size_of(const Mesh& mesh, const Group& group) {
  return group.only.empty() ? extent(mesh, group.along) : static_cast<int>(group.only.size());
}

std::vector<int> members(const Mesh& mesh, const Group& group, int rank) {
  std::vector<int> ranks;
  if (group.only.empty()) {
    const int count = extent(mesh, group.along);
    for (int i = 0; i < count; ++i) ranks.push_back(rank_at(mesh, rank, group.along, i));
  } else {
    for (const int position : group.only) {
      ranks.push_back(rank_at(mesh, rank, group.along, position));
    }
  }
  return ranks;
}

std::string to_string(const Mesh& mesh, AxisSet along) {
  std::string text;
  for (int i = 0; i < axis_count(mesh); ++i) {
    if (!along.contains(i)) continue;
    if (!text.empty()) text += ",";
    text += mesh.axes[static_cast<std::size_t>(i)].name;
  }
  return text;
}

std::string to_string(const Mesh& mesh, const Group& group) {
  std::string text = to_string(mesh, group.along);
  if (group.only.empty()) return text;
  text += "{";
  for (std::size_t i = 0; i < group.only.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(group.only[i]);
  }
  return text + "}";
}

}  // namespace mega
