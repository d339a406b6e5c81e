// megabench: measures this machine and writes what it found as a cluster spec.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "ir/base/diagnostic.h"
#include "tools/help_format.h"
#include "tools/megabench_profile.h"

namespace {

constexpr int kDone = 0, kUsage = 2, kWorldFailed = 4;

constexpr const char* kAbout =
    "Measures this machine (matrix products by shape, memory bandwidth, cost of a small "
    "operation, collectives between two ranks) and writes a cluster spec that a job's "
    "`cluster:` takes.\n\n"
    "Example: megabench --quick -o cluster.yaml\n"
    "         megaplan search job.yaml --set cluster=cluster.yaml";

int fail(int code, const std::string& message) {
  std::cerr << "megabench: " << message << "\n";
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(kAbout, "megabench");
  app.formatter(std::make_shared<mega::tool::HelpFormat>());
  mega::bench::Options options;
  std::string output, backend = "cpu";
  app.add_flag("--quick", options.quick, "about ten seconds instead of a minute");
  app.add_option("--backend", backend, "what to measure (default: cpu)")
      ->check(CLI::IsMember({"cpu"}));
  app.add_option("-o", output, "the cluster spec to write (YAML)")->required();
  app.set_version_flag("--version", MEGA_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }

  // The cores that this process may use; one rank on each.
  options.ranks = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  // Opened first: a path that can't be written should not cost a minute.
  std::ofstream file(output, std::ios::binary);
  if (!file) return fail(kUsage, "cannot write \"" + output + "\"");

  std::cerr << "megabench: measuring " << options.ranks << " ranks, "
            << (options.quick ? "about ten seconds" : "about a minute") << "\n";
  const mega::Result<mega::bench::Profile> profile = mega::bench::measure(options);
  if (!profile.ok()) {
    std::cerr << mega::render(profile.errors(), {});
    return kWorldFailed;
  }
  const std::string text = mega::bench::cluster_text(profile.value(), options);
  file << text << std::flush;
  if (!file) return fail(kWorldFailed, "writing \"" + output + "\" failed");
  std::cout << text;
  return kDone;
}
