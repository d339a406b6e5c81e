#include "planner/spec/read_spec.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "planner/spec/mapping_reader.h"
#include "planner/spec/read_sections.h"
#include "planner/spec/resolve.h"

namespace mega::planner {
namespace {

// A file that is wrong from end to end would bury the reader in errors.
constexpr std::size_t kMostErrors = 50;

void limit(Errors& errors) {
  if (errors.size() <= kMostErrors) return;
  const std::string left = std::to_string(errors.size() - kMostErrors);
  errors.resize(kMostErrors);
  errors.push_back({errors[0].file, {}, left + " more errors", {}, {}});
}

// What two sections say together. `job` is complete but for what was wrong already.
void check_across(const JobSpec& job, ReadLog& log) {
  const bool lacks_bf16 = job.cluster && job.cluster->gpu.peak_bf16.count() == 0;
  if (job.training.precision == "bf16" && lacks_bf16 && log.places.count("cluster.gpu.peak") > 0) {
    const Place& precision = log.places["training.precision"];
    log.errors.push_back({precision.file, precision.where,
                          "training.precision bf16, but the GPU has no peak.bf16",
                          notes_for({"cluster.gpu.peak"}, log.places),
                          "use precision: fp32 or give the GPU a bf16 peak"});
  }
}

// What one rank would need for a whole step, roughly, in seconds.
struct RoughTimes {
  double compute, traffic, delays;
};

RoughTimes rough_times(const JobSpec& job) {
  const ModelSpec& model = job.model;
  const GpuSpec& gpu = job.cluster->gpu;
  const double layers = model.layers;
  const auto width = static_cast<double>(model.hidden);
  const auto attention = static_cast<double>(model.heads * model.head_dim);
  const auto keys = static_cast<double>(model.kv_heads * model.head_dim);
  const double mlp =
      (is_gated(model.activation) ? 3.0 : 2.0) * static_cast<double>(model.ffn_hidden);
  const double parameters =
      layers * width * (2 * attention + 2 * keys + mlp) + width * static_cast<double>(model.vocab);
  const auto batch = static_cast<double>(job.training.global_batch);
  const auto length = static_cast<double>(job.training.sequence_length);
  const bool is_half = job.training.precision == "bf16" && gpu.peak_bf16.count() > 0;
  const double peak = is_half ? gpu.peak_bf16.count() : gpu.peak_fp32.count();
  const double delay = std::max({gpu.launch.count(), job.cluster->node.latency.count(),
                                 job.cluster->network.latency.count()});
  return {batch * length * (6 * parameters + 12 * layers * attention * length) / peak,
          batch * (20 * parameters + 400 * layers * length * width) / gpu.bandwidth.count(),
          batch * layers * 100 * delay};
}

// Of a number without its unit that is years, and times no longer fit 64 bits.
void check_duration(const JobSpec& job, ReadLog& log) {
  if (!job.cluster || !log.errors.empty()) return;
  const auto refuse = [&](const std::string& key, double seconds) {
    constexpr double kYear = 31557600;
    if (seconds <= 10 * kYear) return;
    const Place& place = log.places[key];
    const double years = std::min(seconds / kYear, 1e12);
    log.errors.push_back({place.file,
                          place.where,
                          "at this " + key + " a step would take one rank over " +
                              std::to_string(static_cast<std::int64_t>(years)) + " years",
                          {},
                          "is a unit missing? Such as 312TFLOPS, 2039GB/s, 5us"});
  };
  const RoughTimes times = rough_times(job);
  refuse("cluster.gpu.peak", times.compute);
  refuse("cluster.gpu.bandwidth", times.traffic);
  refuse("cluster.gpu", times.delays);
}

class JobReader {
 public:
  JobReader(MappingReader root, Resolver& resolver, ReadLog& log)
      : root_(std::move(root)), resolver_(&resolver), log_(&log) {}

  void read(JobSpec& job) {
    root_.required("model");
    root_.required("training");
    if (const auto model = section("model", "models")) {
      job.model = read_model(reader(*model, "model"));
      job.model.name = model->name.empty() ? "model" : model->name;
    }
    if (const auto cluster = section("cluster", "clusters")) {
      job.cluster = read_cluster(reader(*cluster, "cluster"), *resolver_, *log_);
      job.cluster->name = cluster->name.empty() ? "cluster" : cluster->name;
    }
    if (const auto training = section("training", "training")) {
      job.training = read_training(reader(*training, "training"));
    }
    if (const auto layout = root_.mapping("layout")) job.layout = read_layout(*layout);
    if (const auto search = root_.mapping("search")) job.search = read_search(*search);
    root_.finish();
    check_across(job, *log_);
    check_duration(job, *log_);
  }

 private:
  std::optional<Resolver::Section> section(const std::string& key, const std::string& folder) {
    const YamlNode* value = root_.find(key);
    return value == nullptr ? std::nullopt : resolver_->resolve(*value, folder);
  }
  MappingReader reader(const Resolver::Section& section, const std::string& path) {
    return {section.node, path, *log_};
  }

  MappingReader root_;
  Resolver* resolver_;
  ReadLog* log_;
};

}  // namespace

ReadJob read_job(const std::string& path_or_dash, const std::vector<std::string>& sets,
                 const std::string& specs_directory) {
  ReadLog log;
  Resolver resolver(specs_directory, log);
  JobSpec job;
  const bool is_standard_input = path_or_dash == "-";
  job.file = is_standard_input ? kStandardInput : path_or_dash;
  job.name = is_standard_input ? "job" : std::filesystem::path(path_or_dash).stem().string();
  std::optional<YamlNode> root = resolver.read_job_file(path_or_dash);
  if (root) {
    resolver.apply_sets(*root, sets);
    JobReader(MappingReader(*root, "", log), resolver, log).read(job);
  }
  const Sources& sources = resolver.sources();
  if (!log.errors.empty()) {
    limit(log.errors);
    return {std::move(log.errors), sources};
  }
  // A table of learned positions is as long as the sequences unless the model says more.
  if (job.model.max_position == 0) job.model.max_position = job.training.sequence_length;
  job.places = std::move(log.places);
  job.sources = sources;
  job.fingerprint = resolver.fingerprint();
  return {std::move(job), sources};
}

}  // namespace mega::planner
