#include "planner/spec/read_sections.h"

namespace mega::planner {
namespace {

double fraction(MappingReader& reader, const std::string& key) {
  return reader.real(key, {0.001, 1}).value_or(1);
}

// A number far from any machine is one without its unit; times made of it would leave 64 bits.
template <class Quantity>
void check_range(MappingReader& reader, const std::string& key,
                 const std::optional<Quantity>& value, double least, double most,
                 const std::string& range, const std::string& example) {
  if (!value) return;
  const auto count = static_cast<double>(value->count());
  if (count >= least && count <= most) return;
  reader.fail(key, reader.path_of(key) + " must be " + range,
              "is its unit missing? Such as " + example);
}

void check_peak(MappingReader& reader, const std::string& key,
                const std::optional<FlopsPerSecond>& peak) {
  check_range(reader, key, peak, 1e9, 1e18, "between 1 GFLOPS and 1,000,000 TFLOPS", "312TFLOPS");
}

void check_bandwidth(MappingReader& reader, const std::optional<BytesPerSecond>& bandwidth) {
  reader.required("bandwidth");
  check_range(reader, "bandwidth", bandwidth, 1e6, 1e16, "between 1 MB/s and 10,000 TB/s",
              "2039GB/s");
}

void check_delay(MappingReader& reader, const std::string& key,
                 const std::optional<Seconds>& delay) {
  check_range(reader, key, delay, 0, 10, "at most 10 s", "5us");
}

void read_peaks(MappingReader& reader, GpuSpec& gpu) {
  reader.required("peak");
  auto peak = reader.mapping("peak");
  if (!peak) return;
  peak->required("fp32");
  const auto read = [&](const char* key) {
    const auto value = peak->flops(key);
    check_peak(*peak, key, value);
    return value.value_or(FlopsPerSecond());
  };
  gpu.peak_fp32 = read("fp32");
  gpu.peak_bf16 = read("bf16");
  gpu.peak_fp8 = read("fp8");
  peak->finish();
}

GpuSpec read_gpu(MappingReader reader, const std::string& name) {
  GpuSpec gpu;
  gpu.name = reader.word("name").value_or(name.empty() ? "gpu" : name);
  gpu.is_cpu = reader.choice("kind", {"gpu", "cpu"}).value_or("gpu") == "cpu";
  const auto memory = reader.bytes("memory");
  reader.required("memory");
  check_range(reader, "memory", memory, 4096, 1e15, "between 4 KiB and 1,000 TB", "80GiB");
  gpu.memory = memory.value_or(Bytes());
  read_peaks(reader, gpu);
  const auto bandwidth = reader.bandwidth("bandwidth");
  check_bandwidth(reader, bandwidth);
  gpu.bandwidth = bandwidth.value_or(BytesPerSecond());
  const auto launch = reader.seconds("launch");
  check_delay(reader, "launch", launch);
  gpu.launch = launch.value_or(Seconds());
  if (auto efficiency = reader.mapping("efficiency")) {
    gpu.efficiency = {fraction(*efficiency, "matmul"), fraction(*efficiency, "attention"),
                      fraction(*efficiency, "memory")};
    efficiency->finish();
  }
  reader.finish();
  return gpu;
}

LinkSpec read_link(MappingReader reader, bool is_network) {
  LinkSpec link;
  link.kind = reader.word("kind").value_or("");
  const auto bandwidth = reader.bandwidth("bandwidth");
  check_bandwidth(reader, bandwidth);
  link.bandwidth = bandwidth.value_or(BytesPerSecond());
  const auto latency = reader.seconds("latency");
  check_delay(reader, "latency", latency);
  link.latency = latency.value_or(Seconds());
  link.efficiency = fraction(reader, "efficiency");
  if (is_network) {
    link.nics = static_cast<int>(reader.integer("nics", {1, 1024}).value_or(1));
    link.oversubscription = reader.real("oversubscription", {1, 1e6}).value_or(1);
  }
  reader.finish();
  return link;
}

// nodes x gpus_per_node, or `gpus`: then the last node may be partly used.
void read_size(MappingReader& reader, ClusterSpec& cluster) {
  const IntegerRange degree{1, kLargestDegree};
  const auto nodes = reader.integer("nodes", degree);
  const auto per_node = reader.integer("gpus_per_node", degree);
  const auto gpus = reader.integer("gpus", degree);
  const std::int64_t node_size = per_node.value_or(nodes ? 1 : gpus.value_or(1));
  const std::int64_t least_nodes = (gpus.value_or(1) + node_size - 1) / node_size;
  const std::int64_t node_count = gpus ? least_nodes : nodes.value_or(1);
  const std::int64_t world = gpus.value_or(node_count * node_size);
  if (world > kLargestDegree) {
    reader.fail("nodes",
                "the cluster has " + std::to_string(world) + " GPUs, at most " +
                    std::to_string(kLargestDegree) + " are supported",
                "", {"cluster.gpus_per_node"});
    return;
  }
  cluster.nodes = static_cast<int>(node_count);
  cluster.gpus_per_node = static_cast<int>(node_size);
  cluster.gpus = static_cast<int>(world);
}

void read_links(MappingReader& reader, ClusterSpec& cluster) {
  if (auto node = reader.mapping("node")) cluster.node = read_link(*node, false);
  if (auto network = reader.mapping("network")) cluster.network = read_link(*network, true);
  // A link that nobody uses may be absent.
  if (cluster.gpus_per_node > 1 && cluster.gpus > 1) reader.required("node");
  if (cluster.nodes > 1) reader.required("network");
}

}  // namespace

ClusterSpec read_cluster(MappingReader reader, Resolver& resolver, ReadLog& log) {
  ClusterSpec cluster;
  read_size(reader, cluster);
  reader.required("gpu");
  if (const YamlNode* gpu = reader.find("gpu")) {
    if (const auto section = resolver.resolve(*gpu, "gpus")) {
      cluster.gpu = read_gpu(MappingReader(section->node, "cluster.gpu", log), section->name);
    }
  }
  read_links(reader, cluster);
  cluster.threads_per_rank =
      static_cast<int>(reader.integer("threads_per_rank", {1, 1024}).value_or(1));
  for (const char* key : {"price_per_gpu_hour", "power_w", "failure_rate"}) reader.not_built(key);
  reader.finish();
  return cluster;
}

}  // namespace mega::planner
