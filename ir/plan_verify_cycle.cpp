#include "ir/plan_verify_cycle.h"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <cstdint>

namespace mega::verifying {
namespace {

using Graph = boost::compressed_sparse_row_graph<boost::directedS>;

// Remembers the first edge that closes a circle.
struct CloseVisitor : boost::default_dfs_visitor {
  std::pair<int, int>* closing;
  explicit CloseVisitor(std::pair<int, int>* found) : closing(found) {}
  template <class Edge>
  void back_edge(Edge edge, const Graph& graph) {
    if (closing->first >= 0) return;
    *closing = {static_cast<int>(source(edge, graph)), static_cast<int>(target(edge, graph))};
  }
};

// The way with the fewest edges, both ends included.
std::vector<int> shortest_path(const Graph& graph, int from, int to) {
  std::vector<int> before(num_vertices(graph), -1);
  std::vector<int> reached = {from};
  before[static_cast<std::size_t>(from)] = from;
  for (std::size_t i = 0; i < reached.size() && before[static_cast<std::size_t>(to)] < 0; ++i) {
    const auto [first, last] = out_edges(static_cast<std::size_t>(reached[i]), graph);
    for (auto edge = first; edge != last; ++edge) {
      const std::size_t next = target(*edge, graph);
      if (before[next] >= 0) continue;
      before[next] = reached[i];
      reached.push_back(static_cast<int>(next));
    }
  }
  std::vector<int> path = {to};
  while (path.back() != from) path.push_back(before[static_cast<std::size_t>(path.back())]);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

std::vector<int> find_cycle(int nodes, const std::vector<std::pair<int, int>>& edges) {
  const Graph graph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
                    static_cast<std::size_t>(nodes));
  std::pair<int, int> closing(-1, -1);
  depth_first_search(graph, boost::visitor(CloseVisitor(&closing)));
  if (closing.first < 0) return {};
  return shortest_path(graph, closing.second, closing.first);
}

}  // namespace mega::verifying
