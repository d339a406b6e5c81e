// Pipelines of any length as text: one forward one backward, its steady state in a loop.
#pragma once

#include <algorithm>
#include <string>

#include "tests/support/plans.h"

namespace mega::testing {

struct PipelineText {
  int stages = 4;
  int micro_batches = 8;
  // Transfers that meet in one exchange; false sends first and receives then, which two
  // neighbours can't both do without buffers (F02).
  bool pairs_transfers = true;
};

class PipelinePlan {
 public:
  explicit PipelinePlan(PipelineText shape) : shape_(shape) {}

  std::string text() {
    text_ = "megaplan 1\njob pipeline\nglobal_batch " + number(2 * shape_.micro_batches) +
            "\nsequence_length 8\nvocab 13\nmesh all pp=" + number(shape_.stages) +
            "\nqueue compute\nqueue p2p\n";
    for (stage_ = 0; stage_ < shape_.stages; ++stage_) program();
    text_ += "ranks by pp:";
    for (int i = 0; i < shape_.stages; ++i) text_ += " stage" + number(i);
    text_ += "\n";
    return text_;
  }

 private:
  static std::string number(int value) { return std::to_string(value); }
  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ == shape_.stages - 1; }
  int warm_up() const { return std::min(shape_.stages - 1 - stage_, shape_.micro_batches); }
  int slots() const { return std::min(shape_.stages - stage_, shape_.micro_batches); }

  // The stages of kPipelineOfThree, with other schedules.
  void program() {
    const std::string& source = kPipelineOfThree;
    const std::string kind = is_first() ? "front" : is_last() ? "back" : "middle";
    const std::size_t from = source.find("program " + kind);
    const std::size_t line = source.find('\n', from);
    const std::size_t chunk = source.find('\n', source.find(" chunk c", from));
    const std::size_t to = source.find(" sequence train", from);
    const std::size_t bytes = source.find(" slot_bytes", from);
    text_ +=
        "\nprogram stage" + number(stage_) +
        source.substr(source.find(" persistent=", from), line - source.find(" persistent=", from));
    text_ += "\n chunk c slots=" + number(slots()) + source.substr(bytes, chunk - bytes) +
             source.substr(chunk, to - chunk) + " sequence train\n  run prologue\n";
    schedule();
    text_ += "  run update after p2p\n";
  }

  std::string at(const std::string& i) const {
    const std::string of = slots() == 1 ? "0" : "(" + i + ")%" + number(slots());
    return " mb=" + i +
           " slot=" + (i.find('i') == std::string::npos ? number(std::stoi(i) % slots()) : of);
  }
  void exchange(const std::string& transfers) {
    text_ += "  exchange pp " + transfers + " on p2p after compute\n";
  }
  // Two transfers to and from the same neighbour, at the same time or one after the other.
  void both(const std::string& send, const std::string& receive) {
    if (shape_.pairs_transfers) return exchange(send + ", " + receive);
    exchange(send);
    exchange(receive);
  }
  void forward(const std::string& i) { text_ += "  run forward" + at(i) + " after p2p\n"; }
  void backward(const std::string& i) { text_ += "  run backward" + at(i) + " after p2p\n"; }
  std::string send_y(const std::string& i) const { return out("y") + at(i) + " to +1"; }
  std::string send_d(const std::string& i) const { return "send d_x" + at(i) + " to -1"; }
  std::string receive_x(const std::string& i) const { return "receive x" + at(i) + " from -1"; }
  std::string receive_d(const std::string& i) const { return "receive d_y" + at(i) + " from +1"; }
  static std::string out(const std::string& name) { return "send " + name; }

  void turn(const std::string& forward_of, const std::string& backward_of,
            const std::string& next) {
    forward(forward_of);
    if (!is_last()) both(send_y(forward_of), receive_d(backward_of));
    backward(backward_of);
    if (is_first()) return;
    if (next.empty()) {
      exchange(send_d(backward_of));
    } else {
      both(send_d(backward_of), receive_x(next));
    }
  }

  void schedule() {
    for (int i = 0; i < warm_up(); ++i) {
      if (!is_first()) exchange(receive_x(number(i)));
      forward(number(i));
      exchange(send_y(number(i)));
    }
    const int steady = shape_.micro_batches - warm_up();
    if (steady > 0) {
      if (!is_first()) exchange(receive_x(number(warm_up())));
      const std::string ahead = "i+" + number(warm_up());
      text_ += "  repeat " + number(steady - 1) + " as i\n";
      turn(ahead, "i", "i+" + number(warm_up() + 1));
      text_ += "  end\n";
      turn(number(shape_.micro_batches - 1), number(steady - 1), "");
    }
    for (int i = steady; i < shape_.micro_batches; ++i) {
      exchange(receive_d(number(i)));
      backward(number(i));
      if (!is_first()) exchange(send_d(number(i)));
    }
  }

  PipelineText shape_;
  int stage_ = 0;
  std::string text_;
};

inline std::string pipeline_plan(PipelineText shape) {
  return PipelinePlan(shape).text();
}

}  // namespace mega::testing
