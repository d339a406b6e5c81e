// Writes one plan as text. Internal to plan_text: header, ranks and sequences are in
// plan_text_print.cpp, buffers and ops in plan_text_print_program.cpp.
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

#include "ir/plan.h"
#include "ir/plan_text_cursor.h"

namespace mega {

// Appends to one string; a plan of a hundred thousand lines is printed in milliseconds.
class PlanPrinter {
 public:
  explicit PlanPrinter(const Plan& plan) : plan_(plan) {}
  std::string print();

 private:
  PlanPrinter& put(std::string_view text) {
    out_ += text;
    return *this;
  }
  PlanPrinter& put(std::integral auto value) {
    char text[24];
    out_.append(text, std::to_chars(text, text + sizeof text, value).ptr);
    return *this;
  }
  PlanPrinter& name(std::string_view text) {
    return is_plain_name(text) ? put(text) : put(quoted_name(text));
  }
  const Mesh& mesh(int index) const { return plan_.meshes.at(static_cast<std::size_t>(index)); }

  void header();
  void schedule();
  void text_line(std::string_view key, std::string_view value);
  void number_line(std::string_view key, std::int64_t value);
  void real_line(std::string_view key, double value);
  void ranks();

  void axes(const Mesh& of, AxisSet set);
  void in_mesh(int index);
  void shape(const Shape& shape);
  void affine(Affine value);
  void slot(Affine value, const std::optional<Affine>& micro_batch, int chunk);

  void program();
  void buffer(const Buffer& buffer);
  void move(const Move& move);
  void shard(const Buffer& buffer, const Shard& shard);
  void segment(const Segment& segment);
  void op(const Op& op);
  void attributes(const Op& op);
  void real(std::string_view key, double value);
  void integer(std::string_view key, std::int64_t value);
  void flag(std::string_view key, bool value);
  void accumulate(std::uint32_t mask);
  void origin(const Op& op);
  void group(const Group& group);
  void sequence(const Sequence& sequence);
  void instruction(const Instruction& instruction, std::string_view indent);
  void run(const Run& run);
  void exchange(const Exchange& exchange);
  void of_chunk(int chunk);

  const Plan& plan_;
  const Program* program_ = nullptr;
  bool separate_ = false;  // whether the op's line has its '|' yet
  std::string out_;
};

}  // namespace mega
