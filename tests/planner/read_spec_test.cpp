#include "planner/spec/read_spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "ir/base/text.h"
#include "planner/layout_defaults.h"
#include "planner/spec/bundled.h"

namespace mega::planner {
namespace {

namespace fs = std::filesystem;

const std::string kSpecs = std::string(MEGA_SOURCE_DIR) + "/specs";
const std::string kQuickstart = kSpecs + "/jobs/quickstart.yaml";

// A folder of spec files that vanishes with the test.
class Folder {
 public:
  Folder() : path_(fs::path(testing::TempDir()) / unique_name()) { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  // Tests run beside each other, each in its own process.
  static std::string unique_name() {
    const char* test = testing::UnitTest::GetInstance()->current_test_info()->name();
    return "mega_" + std::string(test) + "_" + std::to_string(getpid());
  }

  fs::path path_;
};

JobSpec accepted(const std::string& path, const std::vector<std::string>& sets = {}) {
  const ReadJob read = read_job(path, sets, kSpecs);
  EXPECT_TRUE(read.job.ok()) << (read.job.ok() ? "" : render(read.job.errors(), read.sources));
  return read.job.ok() ? read.job.value() : JobSpec{};
}

Errors refused(const std::string& path, const std::vector<std::string>& sets = {}) {
  const ReadJob read = read_job(path, sets, kSpecs);
  EXPECT_FALSE(read.job.ok()) << path;
  return read.job.ok() ? Errors{Diagnostic{}} : read.job.errors();
}

TEST(ReadSpec, TheQuickstartJobSaysWhatItSays) {
  const JobSpec job = accepted(kQuickstart);
  EXPECT_EQ(job.name, "quickstart");
  EXPECT_EQ(job.model.name, "model");
  EXPECT_LE(job.model.hidden, 256);
  EXPECT_EQ(job.model.vocab, 256);
  EXPECT_EQ(job.model.head_dim * job.model.heads, job.model.hidden);
  EXPECT_EQ(job.model.ffn_hidden, 4 * job.model.hidden);
  EXPECT_EQ(job.training.precision, "fp32");
  EXPECT_EQ(job.training.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(job.training.optimizer.schedule.kind, "cosine");
  EXPECT_EQ(job.cluster->name, "cpu-2");
  EXPECT_TRUE(job.cluster->gpu.is_cpu);
  EXPECT_EQ(job.cluster->gpus, 2);
  EXPECT_EQ(memory_margin(job), Bytes(0));
  EXPECT_EQ(job.fingerprint.size(), 16u);
}

TEST(ReadSpec, EveryBundledSpecIsAccepted) {
  const auto models = list_bundled("models", kSpecs);
  ASSERT_GE(models.size(), 5u);
  for (const BundledSpec& model : models) {
    EXPECT_EQ(accepted(kQuickstart, {"model=" + model.name}).model.name, model.name);
    EXPECT_FALSE(model.description.empty()) << model.name;
  }
  const auto clusters = list_bundled("clusters", kSpecs);
  ASSERT_GE(clusters.size(), 3u);
  for (const BundledSpec& cluster : clusters) {
    EXPECT_EQ(accepted(kQuickstart, {"cluster=" + cluster.name}).cluster->name, cluster.name);
    EXPECT_FALSE(cluster.description.empty()) << cluster.name;
  }
  for (const BundledSpec& gpu : list_bundled("gpus", kSpecs)) {
    accepted(kQuickstart, {"cluster.gpu=" + gpu.name});
    EXPECT_FALSE(gpu.description.empty()) << gpu.name;
  }
  const auto jobs = list_bundled("jobs", kSpecs);
  ASSERT_GE(jobs.size(), 3u);
  for (const BundledSpec& job : jobs) {
    accepted(kSpecs + "/jobs/" + job.name + ".yaml");
    EXPECT_FALSE(job.description.empty()) << job.name;
  }
  EXPECT_TRUE(list_bundled("nothing", kSpecs).empty());
}

TEST(ReadSpec, BundledModelsAreWhatTheirNamesSay) {
  const ModelSpec gpt3 = accepted(kSpecs + "/jobs/gpt3-175b-a100.yaml").model;
  EXPECT_EQ(gpt3.layers, 96);
  EXPECT_EQ(gpt3.ffn_hidden, 49152);  // 4 * 12288
  EXPECT_EQ(gpt3.head_dim, 128);
  EXPECT_TRUE(gpt3.tied_embeddings && gpt3.bias_qkv && gpt3.bias_mlp);
  const JobSpec job = accepted(kSpecs + "/jobs/llama3-8b-h100.yaml");
  EXPECT_EQ(job.model.kv_heads, 8);
  EXPECT_EQ(job.model.rope_theta, 500000);
  EXPECT_EQ(job.model.activation, ActivationKind::SwiGlu);
  EXPECT_EQ(job.model.norm, NormKind::RmsNorm);
  EXPECT_FALSE(job.model.tied_embeddings || job.model.bias_qkv);
  EXPECT_EQ(job.cluster->gpus, 128);                                           // 16 nodes of 8
  EXPECT_EQ(job.cluster->network.bandwidth, BytesPerSecond(50e9));             // 400 Gb/s
  EXPECT_EQ(memory_margin(job), Bytes(job.cluster->gpu.memory.count() / 25));  // 4 %
}

TEST(ReadSpec, FamiliesSetDefaultsThatEveryKeyOverrides) {
  const JobSpec job = accepted(
      kQuickstart, {"model={family: gpt2, layers: 2, hidden: 128, heads: 4, kv_heads: 2, vocab: 61,"
                    " position: rope, norm: rms_norm, activation: swiglu, tied_embeddings: false,"
                    " bias: {qkv: true, attention_out: false, mlp: false}, head_dim: 16}"});
  EXPECT_EQ(job.model.position, PositionKind::Rope);
  EXPECT_EQ(job.model.ffn_hidden, 320);  // 8 * 128 / 3 = 341, down to a multiple of 64
  EXPECT_EQ(job.model.head_dim, 16);
  EXPECT_TRUE(job.model.bias_qkv);
  EXPECT_FALSE(job.model.bias_mlp);
  EXPECT_EQ(job.model.max_position, 128);  // the sequence length
  const JobSpec llama = accepted(
      kQuickstart, {"model={family: llama, layers: 2, hidden: 4096, heads: 32, vocab: 61}"});
  EXPECT_EQ(llama.model.ffn_hidden, 10880);  // 8 * 4096 / 3 = 10922, down to a multiple of 64
  EXPECT_EQ(llama.model.kv_heads, 32);
  EXPECT_EQ(llama.model.norm_epsilon, 1e-5);
  EXPECT_EQ(llama.model.rope_theta, 10000);
}

TEST(ReadSpec, SetReachesEveryKeyAndWinsOverTheFile) {
  const JobSpec job =
      accepted(kQuickstart, {"layout.tp=2", "cluster.gpu.memory=2GiB", "model.layers=3",
                             "training.optimizer.kind=sgd", "search.allow={pp: [1, 2]}",
                             "layout.recompute.full=1", "cluster.gpu.peak.bf16=1TFLOPS"});
  EXPECT_EQ(job.layout.tp, 2);
  EXPECT_EQ(job.cluster->gpu.memory, Bytes(2147483648));
  EXPECT_EQ(job.cluster->gpu.peak_fp32, FlopsPerSecond(94e9));  // still the bundled one
  EXPECT_EQ(job.cluster->gpu.peak_bf16, FlopsPerSecond(1e12));
  EXPECT_EQ(job.model.layers, 3);
  EXPECT_EQ(job.training.optimizer.kind, OptimizerKind::Sgd);
  EXPECT_EQ(job.search.allow.at("pp"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(job.layout.recompute, "full:1");
}

TEST(ReadSpec, ErrorsInSetPointIntoTheArgument) {
  const Errors errors = refused(kQuickstart, {"layout.tp=2", "layout.pp=zero", "nonsense",
                                              "modle.layers=3", "layout.=1", "layout.vpp=[1"});
  ASSERT_EQ(errors.size(), 5u);
  for (const Diagnostic& error : errors) EXPECT_EQ(error.file, "--set");
  EXPECT_EQ(errors[0].message, "expected KEY=VALUE, got 'nonsense'");
  EXPECT_EQ(errors[0].where, (SourceLoc{3, 1}));
  EXPECT_EQ(errors[1].message, "expected KEY=VALUE, got 'layout.=1'");
  EXPECT_EQ(errors[2].where.line, 6);
  EXPECT_EQ(errors[3].message, "layout.pp must be a whole number, got 'zero'");
  EXPECT_EQ(errors[3].where, (SourceLoc{2, 11}));
  EXPECT_EQ(errors[4].message, "unknown key 'modle'");
  EXPECT_EQ(errors[4].where, (SourceLoc{4, 1}));
  EXPECT_EQ(errors[4].help, "did you mean 'model'?");
  const ReadJob read = read_job(kQuickstart, {"layout.pp=zero"}, kSpecs);
  EXPECT_NE(render(read.job.errors(), read.sources).find("  1 | layout.pp=zero\n"),
            std::string::npos);
}

TEST(ReadSpec, H12_PpZeroIsRejectedWithAHint) {
  const Errors errors = refused(kQuickstart, {"layout.pp=0"});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message, "layout.pp must be at least 1, got 0");
  EXPECT_EQ(errors[0].help, "use pp: 1");
}

TEST(ReadSpec, UseTakesABaseAndPathsAreRelativeToTheFileThatNamesThem) {
  const Folder folder;
  folder.write("parts/small.yaml", "use: tiny-llama\nlayers: 2\nrope: {theta: 500}\n");
  folder.write("parts/mine.yaml", "gpu: gpu.yaml\nnodes: 1\ngpus_per_node: 1\n");
  folder.write("parts/gpu.yaml", "memory: 1GiB\npeak: {fp32: 1TFLOPS}\nbandwidth: 1GB/s\n");
  folder.write("training.yaml", "sequence_length: 16\nglobal_batch: 4\noptimizer: {kind: sgd}\n");
  const std::string path =
      folder.write("job.yaml",
                   "model: {use: parts/small.yaml, rope: {interleaved: true}}\n"
                   "cluster: {use: parts/mine.yaml, gpu: {memory: 2GiB}}\n"
                   "training: training.yaml\n");
  const JobSpec job = accepted(path, {"training.optimizer.learning_rate=0.5"});
  EXPECT_EQ(job.model.name, "small");
  EXPECT_EQ(job.model.layers, 2);        // of parts/small.yaml
  EXPECT_EQ(job.model.rope_theta, 500);  // merged key by key
  EXPECT_TRUE(job.model.rope_interleaved);
  EXPECT_EQ(job.model.kv_heads, 2);  // of tiny-llama
  EXPECT_EQ(job.cluster->gpu.memory, Bytes(2147483648));
  EXPECT_EQ(job.cluster->gpu.name, "gpu");
  EXPECT_EQ(job.training.optimizer.kind, OptimizerKind::Sgd);
  EXPECT_EQ(job.training.optimizer.learning_rate, 0.5);
  EXPECT_EQ(job.sources.size(), 7u);  // job, small, tiny-llama, mine, gpu, training, --set
  EXPECT_EQ(job.places.at("model.layers").file, folder.path() + "/parts/small.yaml");
  EXPECT_EQ(job.places.at("model.rope.interleaved").file, path);
}

TEST(ReadSpec, ErrorsInABasePointIntoItsFile) {
  const Folder folder;
  const std::string model = folder.write("model.yaml", "use: tiny-gpt2\nlayres: 2\n");
  const std::string path = folder.write(
      "job.yaml", "model: ./model.yaml\ntraining: {sequence_length: 16, global_batch: 4}\n");
  const Errors errors = refused(path);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].file, model);
  EXPECT_EQ(errors[0].where, (SourceLoc{2, 1}));
}

TEST(ReadSpec, UseInACircleEnds) {
  const Folder folder;
  folder.write("a.yaml", "use: b.yaml\n");
  folder.write("b.yaml", "use: a.yaml\n");
  const std::string path =
      folder.write("job.yaml", "model: a.yaml\ntraining: {sequence_length: 16, global_batch: 4}\n");
  const Errors errors = refused(path);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message, "'use' goes in a circle: deeper than 8");
}

TEST(ReadSpec, MissingFilesAreNamedWhereTheyAreNamed) {
  const Folder folder;
  const std::string path = folder.write(
      "job.yaml", "model: other.yaml\ntraining: {sequence_length: 16, global_batch: 4}\n");
  const Errors errors = refused(path);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].where, (SourceLoc{1, 8}));
  EXPECT_EQ(errors[0].message, "'other.yaml': " + folder.path() + "/other.yaml no such file");
}

TEST(ReadSpec, AWrongFileOfAnyKindIsAnErrorNeverACrash) {
  using namespace std::string_literals;
  const Folder folder;
  EXPECT_EQ(refused(folder.path() + "/none.yaml")[0].message, "no such file");
  EXPECT_EQ(refused(folder.path())[0].message, "is a directory, not a file");
  EXPECT_EQ(refused(folder.write("empty", ""))[0].message,
            "the file must be a mapping, got nothing");
  EXPECT_EQ(refused(folder.write("empty", ""), {"layout.tp=2"})[0].message,
            "the file must be a mapping, got nothing");
  EXPECT_EQ(refused(folder.write("word", "tiny-gpt2\n"))[0].message,
            "the file must be a mapping, got 'tiny-gpt2'");
  EXPECT_EQ(refused(folder.write("binary",
                                 "\x7F"
                                 "ELF\x02\0\0"s))[0]
                .message,
            "not a text file: a control character");
  const std::string big = folder.write("big", "");
  fs::resize_file(big, 100 << 20);
  EXPECT_EQ(refused(big)[0].message, "is larger than the limit of 1.00 MiB");
  EXPECT_EQ(refused(folder.write("deep", "model: " + std::string(100000, '[')))[0].message,
            "nested deeper than 64 levels");
  EXPECT_EQ(refused(folder.write("bomb", "a: &a [x]\nb: [*a, *a]\n"))[0].message,
            "anchors are not supported");
  EXPECT_FALSE(refused("/dev/zero").empty());
}

TEST(ReadSpec, ErrorsAreCapped) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  const Errors errors = refused(folder.write("many.yaml", text));
  ASSERT_EQ(errors.size(), 51u);
  EXPECT_EQ(errors.back().message, "1952 more errors");  // 2000 and two sections that miss
}

TEST(ReadSpec, TheFingerprintFollowsTheContentsAndTheSets) {
  const Folder folder;
  const std::string text = "model: tiny-gpt2\ntraining: {sequence_length: 16, global_batch: 4}\n";
  const std::string first = accepted(folder.write("a.yaml", text)).fingerprint;
  EXPECT_EQ(accepted(folder.write("b.yaml", text)).fingerprint, first);
  EXPECT_NE(accepted(folder.write("c.yaml", text + "# \n")).fingerprint, first);
  const std::string one = accepted(folder.path() + "/a.yaml", {"layout.tp=1"}).fingerprint;
  EXPECT_NE(one, first);
  EXPECT_NE(accepted(folder.path() + "/a.yaml", {"layout.tp=2"}).fingerprint, one);
}

TEST(ReadSpec, GpusOverrideNodesTimesGpusPerNode) {
  const std::vector<std::string> a100 = {"cluster=dgx-a100-80g"};
  EXPECT_EQ(accepted(kQuickstart, a100).cluster->gpus, 8);
  const ClusterSpec many =
      *accepted(kQuickstart, {"cluster=dgx-a100-80g", "cluster.gpus=1020"}).cluster;
  EXPECT_EQ(many.gpus, 1020);
  EXPECT_EQ(many.nodes, 128);
  EXPECT_EQ(refused(kQuickstart, {"cluster.nodes=1048576"})[0].message,
            "the cluster has 2097152 GPUs, at most 1048576 are supported");
}

TEST(ReadSpec, SearchKeysAreReadAsTheLayoutsOwn) {
  const SearchSpec search =
      accepted(kQuickstart, {"search={allow: {tp: [1, 2], overlap: [[], [gradient_reduce, "
                             "pipeline]], recompute: [none, {full: 2}], sequence_parallel: [false]}"
                             ", max_gpus: 2, objective: memory, memory_margin: 1.5GiB}"})
          .search;
  EXPECT_EQ(search.allow.at("overlap"),
            (std::vector<std::string>{"none", "gradient_reduce+pipeline"}));
  EXPECT_EQ(search.allow.at("recompute"), (std::vector<std::string>{"none", "full:2"}));
  EXPECT_EQ(search.objective, "memory");
  EXPECT_EQ(search.memory_margin, Bytes(1610612736));
  EXPECT_FALSE(refused(kQuickstart, {"search.allow={tpp: [1]}"}).empty());
}

TEST(ReadSpec, TheExampleOfTheReadmeIsAJob) {
  const std::string readme = read_file(kSpecs + "/README.md", Bytes(1 << 20)).value();
  const std::string fence = "```yaml\n";
  const std::size_t start = readme.find(fence) + fence.size();
  const Folder folder;
  const JobSpec job =
      accepted(folder.write("job.yaml", readme.substr(start, readme.find("```", start) - start)));
  EXPECT_EQ(job.layout.tp, 4);
  EXPECT_EQ(job.cluster->gpus, 128);
}

TEST(FindSpecs, NextToTheProgramOrUpTheTree) {
  const Folder folder;
  folder.write("install/share/megaplan/specs/models/a.yaml", "");
  folder.write("install/share/megaplan/specs/clusters/a.yaml", "");
  const std::string installed = folder.write("install/bin/megaplan", "");
  EXPECT_EQ(find_specs_directory(installed), folder.path() + "/install/share/megaplan/specs");
  folder.write("tree/specs/models/a.yaml", "");
  folder.write("tree/specs/clusters/a.yaml", "");
  const std::string built = folder.write("tree/build/release/bin/megaplan", "");
  EXPECT_EQ(find_specs_directory(built), folder.path() + "/tree/specs");
  EXPECT_FALSE(find_specs_directory(folder.path() + "/nowhere/megaplan"));
}

}  // namespace
}  // namespace mega::planner
