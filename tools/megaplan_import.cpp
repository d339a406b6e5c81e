// The command that makes a model spec of another program's configuration.
#include <iostream>

#include "ir/base/text.h"
#include "planner/spec/import_hf.h"
#include "tools/megaplan_commands.h"
#include "tools/megaplan_files.h"

namespace mega::tool {
namespace {

constexpr Bytes kLargestFile(std::int64_t{1} << 20);

}  // namespace

int import(const Options& options) {
  const bool is_standard_input = options.input == "-";
  const Result<std::string> text = is_standard_input ? read_standard_input(kLargestFile)
                                                     : read_file(options.input, kLargestFile);
  if (!text.ok()) return refuse(options, text.errors(), {});
  const std::string name = is_standard_input ? kStandardInput : options.input;
  const auto imported = planner::import_hf(name, text.value());
  if (!imported.ok()) return refuse(options, imported.errors(), {{name, text.value()}});
  const std::string spec = "# Imported from " + name + "\n" + imported.value().yaml;
  const Status written = options.output.empty() ? print(spec) : write_whole(options.output, spec);
  if (!written.ok()) return refuse(options, written.errors(), {});
  for (const std::string& key : imported.value().not_understood) {
    std::cerr << "not understood  " << key << "\n";
  }
  return kDone;
}

}  // namespace mega::tool
