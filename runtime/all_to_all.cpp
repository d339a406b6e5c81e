#include "runtime/all_to_all.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ir/base/text.h"
#include "ir/types.h"
#include "runtime/alarm.h"

namespace mega::runtime {
namespace {

// Who holds which groups: `sets` sets of members, alike inside.
struct Holders {
  std::int64_t members = 1, sets = 1, stride = 1;

  static Holders of(const ReadyOp& op, std::int64_t sets) {
    const std::int64_t members = op.communicator->size();
    return {members, sets, std::max<std::int64_t>(op.call.attributes.stride, 1)};
  }
  std::int64_t set(std::int64_t member) const { return member / stride % sets; }
  // Which of those that hold the same.
  std::int64_t copy(std::int64_t member) const {
    return stride == 1 ? member / sets : member % stride;
  }
};

// The transfers of one call; kept between calls, so that a step takes nothing from the heap.
std::vector<TransferCall>& calls_of_this_thread() {
  thread_local std::vector<TransferCall> calls;
  calls.clear();
  return calls;
}

const std::int32_t* counts_at(const Place& place, std::int64_t slot) {
  return reinterpret_cast<const std::int32_t*>(place.at(slot));
}

std::int64_t sum(const std::int32_t* counts, std::int64_t size) {
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < size; ++i) total += counts[i];
  return total;
}

Status overflow(const ReadyOp& op, const std::int32_t* received, std::int64_t rows) {
  const auto capacity = op.call.outputs[0].shape[0];
  const std::int64_t members = op.call.inputs[2].shape[0];
  const std::int64_t groups = op.call.inputs[2].shape[1];
  std::vector<std::string> each;
  for (std::int64_t x = 0; x < groups; ++x) {
    std::int64_t total = 0;
    for (std::int64_t y = 0; y < members; ++y) total += received[y * groups + x];
    each.push_back(std::to_string(total));
  }
  return failure("the buffer " + quote(op.output_name) + " was planned for " +
                     std::to_string(capacity) + " rows, but " + std::to_string(rows) +
                     " come: " + join(each, " + "),
                 "plan with a larger model.moe.dropless.factor, or with worst_case");
}

}  // namespace

Status all_to_all(const ReadyOp& op, std::int64_t slot) {
  const std::int64_t part = op.outputs[0].bytes.count() / op.communicator->size();
  const Holders holders = Holders::of(op, op.inputs[0].bytes.count() / part);
  std::vector<TransferCall>& calls = calls_of_this_thread();
  for (int member = 0; member < op.communicator->size(); ++member) {
    calls.push_back({true, member, op.inputs[0].at(slot) + holders.set(member) * part, part});
    calls.push_back({false, member, op.outputs[0].at(slot) + member * part, part});
  }
  return op.communicator->exchange(calls);
}

Status all_to_all_v(const ReadyOp& op, std::int64_t slot) {
  const std::int32_t* sent = counts_at(op.inputs[1], slot);
  const std::int32_t* received = counts_at(op.inputs[2], slot);
  const std::int64_t groups = op.call.inputs[2].shape[1];  // held here
  const std::int64_t all_groups = op.inputs[1].bytes.count() / size_of(DType::Int32);
  const Holders holders = Holders::of(op, all_groups / groups);
  const bool inverse = op.call.attributes.inverse;
  const std::int64_t row = op.call.outputs[0].shape[1] * size_of(op.call.outputs[0].dtype);
  const std::int64_t held_rows = sum(received, groups * holders.members);
  const std::int64_t capacity = op.call.outputs[0].shape[0];
  if (!inverse && held_rows > capacity) return overflow(op, received, held_rows);

  std::byte* own = inverse ? op.outputs[0].at(slot) : op.inputs[0].at(slot);
  std::byte* held = inverse ? op.inputs[0].at(slot) : op.outputs[0].at(slot);
  std::vector<TransferCall>& calls = calls_of_this_thread();
  const auto move = [&](bool is_send, std::int64_t member, std::byte* data, std::int64_t rows) {
    if (rows > 0) calls.push_back({is_send, static_cast<int>(member), data, rows * row});
  };
  for (std::int64_t member = 0; member < holders.members; ++member) {
    const std::int64_t first = holders.set(member) * groups;
    std::int64_t at = sum(sent, first);
    if (inverse) at += holders.copy(member) * (capacity * holders.sets / holders.members);
    for (std::int64_t x = 0; x < groups; ++x) {
      move(!inverse, member, own + at * row, sent[first + x]);
      at += sent[first + x];
    }
  }
  std::int64_t at = 0;
  for (std::int64_t x = 0; x < groups; ++x) {
    for (std::int64_t member = 0; member < holders.members; ++member) {
      const std::int64_t rows = received[member * groups + x];
      move(inverse, member, held + at * row, rows);
      at += rows;
    }
  }
  return op.communicator->exchange(calls);
}

}  // namespace mega::runtime
