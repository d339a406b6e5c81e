#include <algorithm>
#include <array>

#include "ir/base/text.h"
#include "ir/plan_text.h"
#include "ir/plan_text_parser.h"

namespace mega {
namespace {

constexpr std::size_t kMaxErrors = 50;
constexpr std::int64_t kMaxWorld = std::int64_t{1} << 24;
constexpr std::size_t kMaxAxes = 31;  // a set of axes is 32 bits
constexpr int kVersion = 1;

constexpr std::array kStatements = {"mesh",         "queue",
                                    "ranks",        "program",
                                    "chunk",        "persistent",
                                    "scratch",      "slot",
                                    "view",         "segment",
                                    "sequence",     "repeat",
                                    "end",          "run",
                                    "exchange",     "entry",
                                    "job",          "seed",
                                    "vocab",        "precision",
                                    "fingerprint",  "learning_rate",
                                    "global_batch", "sequence_length",
                                    "weight_decay", "threads_per_rank"};

SourceLoc place_of(std::string_view text, std::size_t at) {
  const auto before = text.substr(0, at);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<int>(lines) + 1, static_cast<int>(at - line_start) + 1};
}

}  // namespace

bool NameIndex::add(std::string_view name) {
  names_.emplace_back(name);
  return numbers_.emplace(name, static_cast<int>(names_.size()) - 1).second;
}

int NameIndex::find(std::string_view name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? -1 : found->second;
}

std::string NameIndex::suggestion(std::string_view name) const {
  // Distances cost the product of the lengths; nobody mistypes a name longer than this.
  constexpr std::size_t kLongest = 80;
  const std::string near = name.size() > kLongest ? "" : closest(name, names_);
  return near.empty() ? "" : "did you mean " + quote(near) + "?";
}

void PlanParser::add_error(SourceLoc where, std::string message, std::string help) {
  errors_.push_back({file_, where, std::move(message), {}, std::move(help)});
}

Result<Plan> PlanParser::parse(std::string_view text) {
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    add_error(place_of(text, nul), "not a plan: the file has a NUL byte, so it is not text");
    return errors_;
  }
  if (!first_line(text.substr(0, text.find('\n')))) return errors_;
  int number = 1;
  for (std::size_t start = text.find('\n'); start < text.size(); ++number) {
    const std::size_t stop = std::min(text.find('\n', start + 1), text.size());
    TextCursor line(file_, text.substr(start + 1, stop - start - 1), number + 1);
    start = stop;
    if (line.at_end() || (statement(line) && line.done())) continue;
    if (line.error()) errors_.push_back(*line.error());
    if (errors_.size() >= kMaxErrors) {
      add_error({number + 1, 0}, "too many errors; the rest of the file was not read");
      return errors_;
    }
  }
  close_repeat();
  if (errors_.empty()) complete();
  if (!errors_.empty()) return errors_;
  return std::move(plan_);
}

bool PlanParser::first_line(std::string_view text) {
  TextCursor line(file_, text, 1);
  if (text.empty() || !line.accept_word("megaplan")) {
    add_error({1, 1},
              text.empty() ? "not a plan: the first line is empty"
                           : "not a plan: the first line is " + quote(text),
              "a plan starts with the line 'megaplan " + std::to_string(kVersion) + "'");
    return false;
  }
  const int column = line.next_column();
  const auto version = line.token("a version");
  if (version && *version == std::to_string(kVersion) && line.done()) return true;
  if (line.error()) {
    errors_.push_back(*line.error());
    return false;
  }
  add_error({1, column},
            "plan version " + quote(*version) + " is not the one that this program reads, " +
                std::to_string(kVersion),
            "compile the job again with this release, or use the release that wrote the plan");
  return false;
}

bool PlanParser::statement(TextCursor& line) {
  const auto keyword = line.word("a statement");
  if (!keyword) return false;
  if (place_ == Place::Segment) {
    if (const auto kind = op_named(*keyword)) return op(line, *kind);
    // "matmul:sb,nb->sn": the letters belong to the word up to the first comma or arrow.
    const std::size_t colon = keyword->find(':');
    if (colon != std::string_view::npos) {
      if (const auto kind = op_named(keyword->substr(0, colon))) {
        line.back_to(line.last_column() + static_cast<int>(colon));
        return op(line, *kind);
      }
    }
  }
  if (*keyword == "mesh") return mesh(line);
  if (*keyword == "queue") return queue(line);
  if (*keyword == "ranks") return ranks(line);
  if (*keyword == "program") return program(line);
  if (*keyword == "run" || *keyword == "exchange" || *keyword == "repeat" || *keyword == "end" ||
      *keyword == "sequence") {
    return sequence_statement(line, *keyword);
  }
  if (*keyword == "chunk" || *keyword == "persistent" || *keyword == "scratch" ||
      *keyword == "slot" || *keyword == "view" || *keyword == "segment") {
    return program_statement(line, *keyword);
  }
  return header_statement(line, *keyword);
}

bool PlanParser::unknown_statement(TextCursor& line, std::string_view keyword) {
  const std::string name(keyword.substr(0, keyword.find(':')));
  std::vector<std::string> known;
  if (place_ == Place::Segment) {
    for (const OpInfo& op : all_ops()) known.emplace_back(op.name);
  }
  known.insert(known.end(), kStatements.begin(), kStatements.end());
  const std::string near = closest(name, known);
  if (op_named(name)) {
    return line.fail_last("op " + quote(name) + " outside a segment",
                          "ops follow a line 'segment NAME'");
  }
  return line.fail_last(
      (place_ == Place::Segment ? "unknown op or statement " : "unknown statement ") + quote(name),
      near.empty() ? "" : "did you mean " + quote(near) + "?");
}

// ---- meshes, queues, ranks ----------------------------------------------------------------------

bool PlanParser::mesh(TextCursor& line) {
  Mesh mesh;
  mesh_axes_.emplace_back();
  mesh.name = declare(line, meshes_, "mesh");
  bool good = !line.error();
  while (good && !line.at_end()) good = axis(line, mesh);
  plan_.meshes.push_back(std::move(mesh));
  return good;
}

bool PlanParser::axis(TextCursor& line, Mesh& mesh) {
  if (mesh.axes.size() == kMaxAxes) {
    return line.fail(line.next_column(),
                     "a mesh has at most " + std::to_string(kMaxAxes) + " axes");
  }
  Axis axis;
  axis.name = declare(line, mesh_axes_.back(), "axis");
  if (line.error() || !line.expect('=')) return false;
  if (!store(axis.size, line.integer("the size of an axis", 1, kMaxWorld))) return false;
  std::int64_t world = axis.size;
  for (const Axis& before : mesh.axes) world *= before.size;
  if (world > kMaxWorld) {
    return line.fail_last("the mesh has more than " + std::to_string(kMaxWorld) + " ranks");
  }
  mesh.axes.push_back(std::move(axis));
  return true;
}

bool PlanParser::queue(TextCursor& line) {
  plan_.queues.push_back(declare(line, queues_, "queue"));
  return !line.error();
}

bool PlanParser::ranks(TextCursor& line) {
  close_repeat();
  place_ = Place::Nowhere;
  if (has_ranks_) return line.fail_last("a second line 'ranks'", "a plan has one");
  has_ranks_ = true;
  if (plan_.meshes.empty()) return line.fail_last("'ranks' before the first mesh");
  if (line.accept_word("by") && !store(plan_.by, axes(line, 0))) return false;
  if (!line.expect(':')) return false;
  const int column = line.next_column();
  while (!line.at_end()) {
    if (!assigned(line)) return false;
  }
  const auto positions = static_cast<std::size_t>(extent(plan_.meshes.front(), plan_.by));
  if (plan_.assignment.size() == positions) return true;
  return line.fail(column, std::to_string(plan_.assignment.size()) + " programs for " +
                               std::to_string(positions) + " positions along " +
                               quote(to_string(plan_.meshes.front(), plan_.by)));
}

bool PlanParser::assigned(TextCursor& line) {
  const int program = use(line, programs_, "program");
  if (program < 0) return false;
  std::int64_t count = 1;
  if (line.accept('*') && !store(count, line.integer("a count", 1, kMaxWorld))) return false;
  if (static_cast<std::int64_t>(plan_.assignment.size()) + count > kMaxWorld) {
    return line.fail_last("more than " + std::to_string(kMaxWorld) + " positions");
  }
  plan_.assignment.insert(plan_.assignment.end(), static_cast<std::size_t>(count), program);
  return true;
}

// What can be seen only at the end.
void PlanParser::complete() {
  if (plan_.meshes.empty()) add_error({}, "the plan has no mesh", "add a line 'mesh all dp=1'");
  if (plan_.queues.empty()) add_error({}, "the plan has no queue", "add a line 'queue compute'");
  if (plan_.programs.empty()) add_error({}, "the plan has no program");
  if (!has_ranks_) {
    add_error({}, "the plan doesn't say which rank runs which program",
              "end it with a line such as 'ranks by pp: stage0 stage1'; the file may be cut off");
  }
  for (const Mesh& mesh : plan_.meshes) {
    const Mesh& first = plan_.meshes.front();
    if (world_size(mesh) == world_size(first)) continue;
    add_error({}, "mesh " + quote(mesh.name) + " has " + std::to_string(world_size(mesh)) +
                      " ranks, mesh " + quote(first.name) + " " +
                      std::to_string(world_size(first)));
  }
}

// ---- parts of statements ------------------------------------------------------------------------

int PlanParser::use(TextCursor& line, const NameIndex& names, std::string_view what) {
  const auto name = line.name("the name of a " + std::string(what));
  if (!name) return -1;
  const int number = names.find(*name);
  if (number < 0) {
    line.fail_last("no " + std::string(what) + " named " + quote(*name), names.suggestion(*name));
  }
  return number;
}

// Declared before the rest of the line is read, so that one bad line doesn't make every use of its
// name an error.
std::string PlanParser::declare(TextCursor& line, NameIndex& names, std::string_view what) {
  const auto name = line.name("the name of a " + std::string(what));
  const bool is_new = names.add(name.value_or(""));
  if (!name) return {};
  if (!is_new) line.fail_last("a second " + std::string(what) + " named " + quote(*name));
  return std::string(*name);
}

std::optional<int> PlanParser::in_mesh(TextCursor& line) {
  const auto name = line.name_before('@');
  if (line.error()) return std::nullopt;
  if (plan_.meshes.empty()) {
    line.fail(line.next_column(), "axes before the first mesh");
    return std::nullopt;
  }
  if (!name) return 0;
  const int number = meshes_.find(*name);
  if (number >= 0) return number;
  line.fail_last("no mesh named " + quote(*name), meshes_.suggestion(*name));
  return std::nullopt;
}

std::optional<AxisSet> PlanParser::axes(TextCursor& line, int mesh) {
  AxisSet set;
  if (line.accept('(')) return line.expect(')') ? std::optional(set) : std::nullopt;
  do {
    const int axis = use(line, mesh_axes_[static_cast<std::size_t>(mesh)], "axis");
    if (axis < 0) return std::nullopt;
    if (set.contains(axis)) {
      line.fail_last("the axis is in the set twice");
      return std::nullopt;
    }
    set = set | AxisSet::of(axis);
  } while (line.accept('+'));
  return set;
}

std::optional<Bytes> PlanParser::bytes(TextCursor& line, std::string_view what) {
  const auto count = line.integer(what, 0, kMaxArenaBytes);
  return count ? std::optional(Bytes(*count)) : std::nullopt;
}

std::optional<Shape> PlanParser::shape(TextCursor& line) {
  if (!line.expect('[')) return std::nullopt;
  Shape shape;
  std::int64_t elements = 1;
  while (!line.accept(']')) {
    if (!shape.empty() && !line.expect(',')) return std::nullopt;
    const auto size = line.integer("a dimension", 1, kMaxArenaBytes);
    if (!size) return std::nullopt;
    if (elements > kMaxArenaBytes / *size) {
      line.fail_last("the shape has more than " + std::to_string(kMaxArenaBytes) + " elements");
      return std::nullopt;
    }
    elements *= *size;
    shape.push_back(*size);
  }
  return shape;
}

Result<Plan> parse_plan(const std::string& file, const std::string& text) {
  if (static_cast<std::int64_t>(text.size()) > kMaxPlanBytes) {
    return Diagnostic{file,
                      {},
                      "the plan has " + to_string(Bytes(static_cast<std::int64_t>(text.size()))) +
                          ", more than the largest that is read, " +
                          to_string(Bytes(kMaxPlanBytes)),
                      {},
                      {}};
  }
  return PlanParser(file).parse(text);
}

}  // namespace mega
