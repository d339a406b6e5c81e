#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tools/megabench_profile.h"

namespace mega::bench {
namespace {

// Three digits: what differs from run to run is not written down.
std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  // "1.23e+11" is a number to every YAML reader, but hard on people.
  char plain[64];
  std::snprintf(plain, sizeof plain, "%.10g", std::strtod(text, nullptr));
  return plain;
}

std::string giga(double value, const char* unit) {
  return rounded(value / 1e9) + unit;
}
std::string micro(Seconds time) {
  return rounded(time.count() * 1e6) + "us";
}

// First value of `key` in a system file of "key : value" lines; empty when there is none.
std::string system_value(const char* file, const std::string& key) {
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

FlopsPerSecond best_matmul(const Profile& profile) {
  FlopsPerSecond best;
  for (const MatMulRate& row : profile.matmul) best = std::max(best, row.rate);
  return best;
}

// Geometric mean over the best: what fraction of the peak a mixed bag of shapes reaches.
template <class Row>
std::string fraction_of(FlopsPerSecond peak, const std::vector<Row>& rows) {
  double log_sum = 0;
  for (const Row& row : rows) log_sum += std::log(row.rate.count() / peak.count());
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", std::exp(log_sum / static_cast<double>(rows.size())));
  return text;
}

BytesPerSecond slowest_stream(const Profile& profile) {
  BytesPerSecond slowest = profile.stream.front().rate;
  for (const StreamRate& row : profile.stream) slowest = std::min(slowest, row.rate);
  return slowest;
}

void write_measured(std::ostream& out, const Profile& profile) {
  for (const MatMulRate& row : profile.matmul)
    out << "#   matmul " << row.m << " x " << row.n << " x " << row.k << "  "
        << giga(row.rate.count(), " GFLOP/s") << "\n";
  for (const AttentionRate& row : profile.attention)
    out << "#   attention over " << row.sequence << ", head_dim " << row.head_dim << "  "
        << giga(row.rate.count(), " GFLOP/s") << "\n";
  for (const StreamRate& row : profile.stream)
    out << "#   " << row.kernel << "  " << giga(row.rate.count(), " GB/s") << "\n";
  out << "#   smallest op  " << micro(profile.launch) << "\n";
  for (const LinkTime& row : profile.links)
    out << "#   " << row.operation << " of " << to_string(row.bytes) << " by 2 ranks  "
        << micro(row.time) << "\n";
}

}  // namespace

Result<Profile> measure(const Options& options) {
  Profile profile;
  profile.ranks = options.ranks;
  profile.processor = system_value("/proc/cpuinfo", "model name");
  const std::string available = system_value("/proc/meminfo", "MemAvailable");
  profile.memory_available = Bytes(std::atoll(available.c_str()) * 1024);  // the file says kB
  measure_kernels(options, profile);
  MEGA_TRY_STATUS(measure_links(options, profile));
  return profile;
}

std::string cluster_text(const Profile& profile, const Options& options) {
  const Link link = fit_link(profile.links);
  const Bytes memory = profile.memory_available / std::int64_t{profile.ranks};
  std::ostringstream out;
  out << "# This machine, measured by megabench" << (options.quick ? " --quick" : "") << " with "
      << profile.ranks << (profile.ranks == 1 ? " rank" : " ranks") << " at once.\n";
  if (!profile.processor.empty()) out << "# " << profile.processor << "\n";
  out << "# Medians, per rank:\n";
  write_measured(out, profile);
  const FlopsPerSecond peak = best_matmul(profile);
  out << "gpu:\n"
      << "  name: cpu\n"
      << "  kind: cpu\n"
      << "  memory: " << memory.count() / (1 << 20) << "MiB  # available memory / ranks\n"
      << "  peak: {fp32: " << giga(peak.count(), "GFLOPS") << "}  # the best product\n"
      << "  bandwidth: " << giga(slowest_stream(profile).count(), "GB/s") << "\n"
      << "  launch: " << micro(profile.launch) << "\n"
      << "  efficiency: {matmul: " << fraction_of(peak, profile.matmul)
      << ", attention: " << fraction_of(peak, profile.attention) << ", memory: 1}\n"
      << "nodes: 1\n"
      << "gpus_per_node: " << profile.ranks << "\n"
      << "node: {kind: shared_memory, bandwidth: " << giga(link.bandwidth.count(), "GB/s")
      << ", latency: " << micro(link.latency) << "}\n"
      << "threads_per_rank: 1\n";
  return out.str();
}

}  // namespace mega::bench
