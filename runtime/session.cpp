#include "runtime/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <system_error>
#include <utility>

#include "ir/base/check.h"
#include "ir/plan_verify.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/describe.h"
#include "runtime/host_memory.h"
#include "runtime/learning_rate.h"
#include "runtime/worker.h"

namespace mega::runtime {
namespace {

// How long ranks get to leave their operations after a failure. Those that take longer are named
// and left alone: a kernel cannot be interrupted.
constexpr std::chrono::seconds kGrace{1};
constexpr int kReportedRanks = 16;

using Clock = std::chrono::steady_clock;

Status check_precision(const Plan& plan) {
  if (plan.header.precision == "fp32") return Ok{};
  return failure("the plan's precision is " + plan.header.precision,
                 plan.header.precision + " plans can be estimated but not run yet; use fp32");
}

Status check_memory(const Plan& plan, const std::optional<Bytes>& limit) {
  const std::optional<Bytes> available = limit ? limit : available_memory();
  const Bytes needed = arena_bytes_of_world(plan);
  if (!available || needed <= *available) return Ok{};
  return failure("the plan needs " + to_string(needed) + " (" + std::to_string(needed.count()) +
                     " bytes) for its " + std::to_string(world_size(plan)) +
                     " ranks, this host has " + to_string(*available) + " (" +
                     std::to_string(available->count()) + " bytes) available",
                 "plan for a smaller model, a smaller batch or fewer ranks on this host");
}

}  // namespace

struct Session::Rank {
  std::unique_ptr<CpuDevice> device;
  std::map<GroupOnQueue, std::unique_ptr<Communicator>> communicators;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Worker> worker;
};

Bytes arena_bytes_of_world(const Plan& plan) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 62;  // no host has more
  std::int64_t sum = 0;
  for (int rank = 0; rank < world_size(plan); ++rank) {
    const Program& program = plan.programs[static_cast<std::size_t>(program_of(plan, rank))];
    sum = std::min(kLimit, sum + arena_bytes(program).count());  // each at most 2^47
  }
  return Bytes(sum);
}

Session::Session(Plan plan, SessionOptions options)
    : plan_(std::move(plan)), options_(std::move(options)), bell_(alarm_, mutex_) {
  if (options_.serialize) baton_ = std::make_unique<Baton>(alarm_);
  world_ = std::make_unique<ThreadWorld>(ThreadWorldOptions{options_.deadline, options_.delay_seed},
                                         alarm_, baton_.get());
}

Session::~Session() {
  // All threads end before the first arena goes: a peer may still be reading it.
  for (const auto& rank : ranks_) rank->worker.reset();
}

Result<std::unique_ptr<Session>> Session::open(Plan plan, SessionOptions options) {
  MEGA_TRY_STATUS(check_precision(plan));
  Errors errors = verify(plan, options.name);
  if (!errors.empty()) return errors;
  MEGA_TRY_STATUS(check_memory(plan, options.memory_limit));
  std::unique_ptr<Session> session(new Session(std::move(plan), std::move(options)));
  try {
    MEGA_TRY_STATUS(session->build());
  } catch (const std::system_error& error) {
    return failure("cannot start the threads of " + std::to_string(world_size(session->plan_)) +
                   " ranks: " + error.what());
  }
  return session;
}

Status Session::build() {
  const int world = world_size(plan_);
  for (int number = 0; number < world; ++number) {
    ranks_.push_back(std::make_unique<Rank>());
    MEGA_TRY_STATUS(allocate(*ranks_.back(), number));
  }
  connect();
  for (int number = 0; number < world; ++number) {
    Rank& rank = *ranks_[static_cast<std::size_t>(number)];
    ReadyProgram program =
        make_ready(plan_, number, arenas_[static_cast<std::size_t>(number)],
                   [&rank](const GroupOnQueue& key) { return rank.communicators.at(key).get(); });
    rank.executor =
        std::make_unique<Executor>(plan_, number, std::move(program), *rank.device, alarm_,
                                   ExecutorOptions{options_.check, baton_.get(), options_.before});
    if (const double* loss = scalar("loss", number)) losses_.push_back({number, loss});
    if (const double* loss = scalar("aux_loss", number)) {
      auxiliary_losses_.push_back({number, loss});
    }
    if (const double* sum = scalar("gradient_square_sum", number)) {
      square_sums_.push_back({number, sum});
    }
    rank.worker = std::make_unique<Worker>([this, &rank] {
      // A failure has raised the alarm; run_all() reads it there.
      (void)rank.executor->run(sequence_);
      const std::lock_guard lock(mutex_);
      --running_;
      bell_.ring();
      stopped_.notify_all();
    });
  }
  return Ok{};
}

Status Session::allocate(Rank& rank, int number) {
  const Program& program = plan_.programs[static_cast<std::size_t>(program_of(plan_, number))];
  const QueueSet queues{queues_of(program) | 1};
  rank.device = std::make_unique<CpuDevice>(
      CpuDeviceOptions{queues, plan_.header.threads_per_rank, options_.check}, alarm_);
  MEGA_TRY(std::byte * arena, rank.device->allocate(arena_bytes(program)));
  arenas_.push_back(arena);
  return Ok{};
}

// Eagerly and in one global order, by rank, queue and group: nothing is created on first use,
// where ranks could come in different orders and lock each other out.
void Session::connect() {
  for (int number = 0; number < world_size(plan_); ++number) {
    Rank& rank = *ranks_[static_cast<std::size_t>(number)];
    const Program& program = plan_.programs[static_cast<std::size_t>(program_of(plan_, number))];
    for (const GroupOnQueue& key : groups_of(program)) {
      if (rank.communicators.contains(key)) continue;  // made with an earlier member
      const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(key.group.mesh)];
      const std::vector<int> numbers = members(mesh, key.group, number);
      std::vector<std::string> labels;
      for (const int member : numbers) labels.push_back(describe_rank(plan_, member));
      auto communicators = world_->connect("along " + to_string(mesh, key.group) + " on queue " +
                                               plan_.queues[static_cast<std::size_t>(key.queue)],
                                           std::move(labels));
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        ranks_[static_cast<std::size_t>(numbers[i])]->communicators[key] =
            std::move(communicators[i]);
      }
    }
  }
}

Status Session::run_all(const std::string& sequence) {
  if (alarm_.raised()) return alarm_.errors();
  sequence_ = sequence;
  running_ = static_cast<int>(ranks_.size());
  for (const auto& rank : ranks_) rank->worker->start();
  const auto all_stopped = [this] { return running_ == 0; };
  std::unique_lock lock(mutex_);
  if (bell_.sleep(lock, no_deadline(), all_stopped) == Wake::Alarm) {
    stopped_.wait_for(lock, kGrace, all_stopped);
  }
  lock.unlock();
  if (alarm_.raised()) return report();
  return Ok{};
}

// The first failure, and where each rank is.
Errors Session::report() const {
  Errors errors = alarm_.errors();
  const int world = static_cast<int>(ranks_.size());
  for (int number = 0; number < std::min(world, kReportedRanks); ++number) {
    for (const std::string& line : ranks_[static_cast<std::size_t>(number)]->executor->progress()) {
      errors.front().notes.push_back(
          {options_.name, {}, describe_rank(plan_, number) + " " + line});
    }
  }
  if (world > kReportedRanks) {
    errors.front().notes.push_back(
        {options_.name, {}, "and " + std::to_string(world - kReportedRanks) + " more ranks"});
  }
  return errors;
}

Status Session::start() {
  MEGA_CHECK(!started_, "a session starts once");
  started_ = true;
  for (const auto& rank : ranks_) {
    kernels::Scalars scalars;
    scalars.seed = static_cast<std::uint64_t>(plan_.header.seed);
    rank->executor->set_step({}, scalars);
  }
  MEGA_TRY_STATUS(run_all("init"));
  return options_.check ? compare_replicas() : Status(Ok{});
}

Result<StepResult> Session::train(const kernels::BatchView& batch) {
  MEGA_CHECK(started_, "start() comes before train()");
  StepResult result;
  result.step = steps_ + 1;
  result.learning_rate = learning_rate(plan_.header.schedule, result.step);
  kernels::Scalars scalars;
  scalars.learning_rate = result.learning_rate;
  scalars.weight_decay = plan_.header.weight_decay;
  scalars.step = result.step;
  scalars.seed = static_cast<std::uint64_t>(plan_.header.seed);
  for (const auto& rank : ranks_) rank->executor->set_step(batch, scalars);
  const Clock::time_point begin = Clock::now();
  MEGA_TRY_STATUS(run_all("train"));
  result.time = Seconds(std::chrono::duration<double>(Clock::now() - begin).count());
  if (!losses_.empty()) result.loss = *losses_.front().value;
  if (!auxiliary_losses_.empty()) result.aux_loss = *auxiliary_losses_.front().value;
  if (!square_sums_.empty()) result.grad_norm = std::sqrt(*square_sums_.front().value);
  for (const auto& [name, value] :
       {std::pair{"loss", result.loss}, std::pair{"auxiliary loss", result.aux_loss},
        std::pair{"gradient norm", result.grad_norm}}) {
    if (value && !std::isfinite(*value)) {
      return failure(
          "step " + std::to_string(result.step) + ": the " + name + " is " + std::to_string(*value),
          "lower the learning rate, lengthen its warm-up or clip the gradient");
    }
  }
  if (options_.check) {
    MEGA_TRY_STATUS(check_step());
  }
  ++steps_;
  return result;
}

Status Session::check_step() const {
  for (int number = 0; number < static_cast<int>(ranks_.size()); ++number) {
    const Status guards = ranks_[static_cast<std::size_t>(number)]->device->check_guards();
    if (guards.ok()) continue;
    return failure(describe_rank(plan_, number) + ": " + guards.errors().front().message);
  }
  for (const auto* copies : {&losses_, &square_sums_}) {
    for (const ScalarOfRank& copy : *copies) {
      const double first = *copies->front().value;
      if (*copy.value == first) continue;
      return failure("the " + std::string(copies == &losses_ ? "loss" : "square sum") + " is " +
                     std::to_string(*copy.value) + " on " + describe_rank(plan_, copy.rank) +
                     " and " + std::to_string(first) + " on lower ranks");
    }
  }
  return compare_replicas();
}

const double* Session::scalar(const std::string& name, int rank) const {
  const Program& program = plan_.programs[static_cast<std::size_t>(program_of(plan_, rank))];
  const std::optional<BufferId> id = find_buffer(program, name);
  if (!id || program.buffers[*id].dtype != DType::Fp64) return nullptr;
  const std::byte* arena = arenas_[static_cast<std::size_t>(rank)];
  return reinterpret_cast<const double*>(arena + arena_offset(plan_, rank, *id, 0).count());
}

Bytes Session::allocated(int rank) const {
  return ranks_[static_cast<std::size_t>(rank)]->device->allocated();
}

Result<std::vector<std::byte>> Session::read(int rank, const std::string& buffer,
                                             std::int64_t slot) const {
  if (rank < 0 || rank >= world_size(plan_)) {
    return failure("there is no rank " + std::to_string(rank));
  }
  const Program& program = plan_.programs[static_cast<std::size_t>(program_of(plan_, rank))];
  const std::optional<BufferId> id = find_buffer(program, buffer);
  if (!id) return failure(describe_rank(plan_, rank) + " has no buffer '" + buffer + "'");
  const Place place = place_of(plan_, rank, *id, arenas_[static_cast<std::size_t>(rank)]);
  const std::byte* begin = place.at(slot);
  return std::vector<std::byte>(begin, begin + place.bytes.count());
}

Result<std::vector<GlobalTensor>> Session::gather(Role role) const {
  return runtime::gather(plan_, arenas_, role);
}

Status Session::compare_replicas() const {
  return runtime::compare_replicas(plan_, arenas_);
}

}  // namespace mega::runtime
