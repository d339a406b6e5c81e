// Follows what every piece of a program's memory holds through its sequences: who wrote it, for
// which micro-batch, and whether all who touch it are in order. Internal to plan_verify.
//
// Instructions are followed in program order. That is enough: waits point backwards only, so if
// all conflicting accesses are ordered at all, they are ordered like the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan_verify_access.h"
#include "ir/plan_verify_report.h"

namespace mega::verifying {

class ProgramFlow {
 public:
  ProgramFlow(const Plan& plan, int program, AccessTable accesses, Report& report);

  // Starts from what `init` left behind. Others leave nothing behind for the next.
  void follow(const Unrolled& sequence, bool is_init);

 private:
  // Of one atom, in one slot.
  struct State {
    std::int32_t writer = -1;  // instance that wrote it last; -1: none in this sequence
    std::int64_t micro_batch = -1;
    bool is_written = false;
  };
  struct Use {
    std::int32_t instance = 0;
    std::int64_t micro_batch = -1;
    std::int64_t slot = -1;
  };

  void follow_run(const Run& run, std::int32_t instance);
  void follow_exchange(const Exchange& exchange, std::int32_t instance);
  std::optional<Use> use_of(const std::optional<Affine>& micro_batch,
                            const std::optional<Affine>& slot, int chunk, std::int32_t instance);
  void access(const Access& access, const Use& use);
  void check_content(const Access& access, const Use& use, const State& state);
  void check_order(const Access& access, const Use& use, std::size_t index);
  std::int64_t turn_of(std::int32_t instance) const;
  void fail(std::int32_t instance, const std::string& kind, const std::string& reason,
            std::vector<std::string> notes = {});
  std::string what(const Access& access, const Use& use) const;

  const Plan& plan_;
  int number_;
  const Program& program_;
  AccessTable accesses_;
  Report& report_;
  const Unrolled* sequence_ = nullptr;
  std::vector<std::size_t> first_state_;  // by atom; a slot's atom has one per slot
  std::vector<State> states_;
  std::vector<std::int32_t> readers_;  // [state][queue]: latest instance since the write, or -1
  std::vector<bool> after_init_;       // [state]: written when init has ended
};

}  // namespace mega::verifying
