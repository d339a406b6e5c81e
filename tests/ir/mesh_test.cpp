#include "ir/mesh.h"

#include <gtest/gtest.h>

#include <set>

namespace mega {
namespace {

// pp is outermost: rank = (pp * 3 + dp) * 4 + tp.
const Mesh kMesh{"dense", {{"pp", 2}, {"dp", 3}, {"tp", 4}}};
constexpr AxisSet kPp = AxisSet::of(0), kDp = AxisSet::of(1), kTp = AxisSet::of(2);

TEST(Mesh, RanksAreRowMajorOverTheAxes) {
  EXPECT_EQ(world_size(kMesh), 24);
  EXPECT_EQ(coordinate(kMesh, 17, 0), 1);  // 17 = (1 * 3 + 1) * 4 + 1
  EXPECT_EQ(coordinate(kMesh, 17, 1), 1);
  EXPECT_EQ(coordinate(kMesh, 17, 2), 1);
  EXPECT_EQ(axis_index(kMesh, "dp"), 1);
  EXPECT_EQ(axis_index(kMesh, "ep"), -1);
}

TEST(Mesh, PositionsCountTheOutermostAxisAsTheMajorOne) {
  EXPECT_EQ(position_along(kMesh, 17, kDp | kTp), 5);  // 1 * 4 + 1
  EXPECT_EQ(position_along(kMesh, 17, kPp | kTp), 5);  // 1 * 4 + 1
  EXPECT_EQ(position_along(kMesh, 17, {}), 0);
  EXPECT_EQ(extent(kMesh, kPp | kDp), 6);
  EXPECT_EQ(extent(kMesh, {}), 1);
}

TEST(Mesh, PeersAlongAnAxisDifferOnlyThere) {
  for (int rank = 0; rank < world_size(kMesh); ++rank) {
    for (const AxisSet along : {kPp, kDp, kTp, kPp | kTp, all_axes(kMesh), AxisSet{}}) {
      for (int position = 0; position < extent(kMesh, along); ++position) {
        const int peer = rank_at(kMesh, rank, along, position);
        EXPECT_EQ(position_along(kMesh, peer, along), position);
        const AxisSet rest = all_axes(kMesh) - along;
        EXPECT_EQ(position_along(kMesh, peer, rest), position_along(kMesh, rank, rest));
      }
    }
  }
}

TEST(Mesh, GroupsSplitTheWorld) {
  for (const AxisSet along : {kPp, kDp, kTp, kDp | kTp, all_axes(kMesh)}) {
    std::multiset<int> seen;
    for (int rank = 0; rank < world_size(kMesh); ++rank) {
      const std::vector<int> group = members(kMesh, {0, along, {}}, rank);
      EXPECT_EQ(static_cast<int>(group.size()), extent(kMesh, along));
      if (group.front() == rank) seen.insert(group.begin(), group.end());
    }
    EXPECT_EQ(seen.size(), 24U);  // every rank is in one group
    EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 24U);
  }
}

TEST(Mesh, AGroupOfSomePositionsHasOnlyThose) {
  const Group ends{0, kTp, {0, 3}};
  EXPECT_EQ(size_of(kMesh, ends), 2);
  EXPECT_EQ(members(kMesh, ends, 16), (std::vector<int>{16, 19}));
  EXPECT_EQ(to_string(kMesh, ends), "tp{0,3}");
  EXPECT_EQ(to_string(kMesh, kPp | kTp), "pp,tp");
}

TEST(Mesh, SetsOfAxesAreSets) {
  const AxisSet both = kPp | kTp;
  EXPECT_TRUE(both.contains(0));
  EXPECT_FALSE(both.contains(1));
  EXPECT_TRUE(both.contains(kTp));
  EXPECT_FALSE(both.contains(kTp | kDp));
  EXPECT_EQ(both - kTp, kPp);
  EXPECT_TRUE((both & kDp).empty());
}

}  // namespace
}  // namespace mega
