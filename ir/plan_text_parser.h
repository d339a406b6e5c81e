// The state of parsing one plan: what has been declared, and the mistakes so far.
// Internal to plan_text; its statements live in plan_text_parse.cpp (lines, meshes, ranks),
// plan_text_header.cpp, plan_text_program.cpp (buffers), plan_text_segment.cpp (ops) and
// plan_text_sequence.cpp (instructions).
//
// A statement returns whether it was read to its end; a failure has left its message in the line.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/base/result.h"
#include "ir/plan.h"
#include "ir/plan_text_cursor.h"

namespace mega {

// The names of one kind, each with its number. Looked up by hash, listed in order.
class NameIndex {
 public:
  // Numbers the next name; false when it was there already (it still takes a number).
  bool add(std::string_view name);
  int find(std::string_view name) const;                // -1 when there is none
  std::string suggestion(std::string_view name) const;  // "did you mean 'x'?", or nothing

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, int, Hash, std::equal_to<>> numbers_;
  std::vector<std::string> names_;
};

// Stores what a reader found; false when it found nothing.
template <class Target, class Value>
bool store(Target& target, const std::optional<Value>& value) {
  if (value) target = Target(*value);
  return value.has_value();
}

class PlanParser {
 public:
  explicit PlanParser(std::string file) : file_(std::move(file)) {}
  Result<Plan> parse(std::string_view text);

 private:
  bool first_line(std::string_view text);
  bool statement(TextCursor& line);
  bool unknown_statement(TextCursor& line, std::string_view keyword);
  bool mesh(TextCursor& line);
  bool axis(TextCursor& line, Mesh& mesh);
  bool queue(TextCursor& line);
  bool ranks(TextCursor& line);
  bool assigned(TextCursor& line);
  void complete();
  void add_error(SourceLoc where, std::string message, std::string help = {});

  bool header_statement(TextCursor& line, std::string_view keyword);
  bool header_number(TextCursor& line, std::string_view keyword);
  bool header_real(TextCursor& line, std::string_view keyword);
  bool learning_rate(TextCursor& line);
  bool entry(TextCursor& line);

  // Parts of statements. The number of a declared name, -1 and a message when there is none.
  int use(TextCursor& line, const NameIndex& names, std::string_view what);
  std::string declare(TextCursor& line, NameIndex& names, std::string_view what);
  std::optional<AxisSet> axes(TextCursor& line, int mesh);
  std::optional<int> in_mesh(TextCursor& line);  // "name@", else mesh 0
  std::optional<Shape> shape(TextCursor& line);
  std::optional<Bytes> bytes(TextCursor& line, std::string_view what);
  std::optional<int> of_chunk(TextCursor& line);

  bool program_statement(TextCursor& line, std::string_view keyword);
  bool program(TextCursor& line);
  bool chunk(TextCursor& line);
  bool buffer(TextCursor& line, std::string_view keyword);
  bool buffer_place(TextCursor& line, Buffer& buffer, bool is_view);
  bool move(TextCursor& line, Buffer& buffer);
  bool shard(TextCursor& line, Buffer& buffer);
  bool shard_shape(TextCursor& line, Shard& shard);
  bool grow_arena(TextCursor& line, Bytes each, std::int64_t count);

  bool segment(TextCursor& line);
  bool op(TextCursor& line, OpKind kind);
  bool op_index(TextCursor& line, Op& op);
  bool operands(TextCursor& line, std::vector<BufferId>& operands);
  bool attribute(TextCursor& line, Op& op);
  bool place_attribute(TextCursor& line, Op& op);
  bool accumulate(TextCursor& line, Attributes& attributes);
  bool origin(TextCursor& line, Op& op);
  bool group(TextCursor& line, Op& op);

  bool sequence_statement(TextCursor& line, std::string_view keyword);
  bool sequence(TextCursor& line);
  bool repeat(TextCursor& line);
  bool end(TextCursor& line);
  bool run(TextCursor& line);
  bool exchange(TextCursor& line);
  bool transfer(TextCursor& line, Exchange& exchange);
  // A slot is read modulo `slots`; 0 where there is no chunk to count by.
  bool micro_batch_and_slot(TextCursor& line, int slots, std::optional<Affine>& micro_batch,
                            std::optional<Affine>& slot);
  std::optional<Affine> affine(TextCursor& line);
  std::optional<Affine> affine_sum(TextCursor& line);
  int slots_of(int chunk) const;
  bool queue_and_waits(TextCursor& line, Instruction& instruction);
  bool add_instruction(TextCursor& line, Instruction instruction);
  void close_repeat();

  Program& current() { return plan_.programs.back(); }

  std::string file_;
  Plan plan_;
  Errors errors_;

  NameIndex meshes_, queues_, programs_, header_keys_, entries_;
  std::vector<NameIndex> mesh_axes_;
  bool has_ranks_ = false;

  // The program that is being read, and where in it the next line belongs.
  enum class Place { Nowhere, Program, Segment, Sequence };
  Place place_ = Place::Nowhere;
  NameIndex buffers_, segments_, chunks_, sequences_;
  Bytes arena_;
  std::optional<Repeat> repeat_;
  int repeat_line_ = 0;
  std::int64_t instructions_ = 0;
};

}  // namespace mega
