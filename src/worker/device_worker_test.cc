#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include <sys/socket.h>

#include <gtest/gtest.h>

#include "engine/sim.h"
#include "worker/worker.h"

namespace lares::worker {
namespace {

constexpr ModelId kModel{1};

// A sim engine that can be held inside run() or load(), so that a test decides what arrives
// meanwhile.
class GatedEngine : public engine::SimEngine {
 public:
  GatedEngine() : SimEngine(never_ending()) {}

  static engine::SimOptions never_ending() {
    engine::SimOptions options;
    options.end_one_in = 0;
    return options;
  }

  Result<engine::Ran> run(const engine::Run& run) override {
    pass(hold_runs_);
    return SimEngine::run(run);
  }
  Result<engine::Loaded> load(const engine::LoadSpec& spec) override {
    pass(hold_loads_);
    return SimEngine::load(spec);
  }
  void set_threads(std::uint32_t threads) override { threads_.set_value(threads); }

  void hold_runs() { set(hold_runs_, true); }
  void hold_loads() { set(hold_loads_, true); }
  void let_go() {
    set(hold_runs_, false);
    set(hold_loads_, false);
  }
  // Blocks until a call is being held.
  void wait_until_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_ > 0; });
  }
  std::future<std::uint32_t> threads() { return threads_.get_future(); }

 private:
  void set(bool& flag, bool value) {
    const std::lock_guard lock(mutex_);
    flag = value;
    changed_.notify_all();
  }
  void pass(const bool& held) {
    std::unique_lock lock(mutex_);
    ++held_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held; });
    --held_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool hold_runs_ = false;
  bool hold_loads_ = false;
  int held_ = 0;
  std::promise<std::uint32_t> threads_;
};

class DeviceWorkerTest : public ::testing::Test {
 protected:
  DeviceWorkerTest() : ends_(*socket_pair()), ours_(ends_.first) {
    thread_ = std::thread([this] {
      Channel theirs(ends_.second);
      run_device_worker(theirs, engine_);
    });
    EXPECT_EQ(next<Hello>().kind, "device");
  }
  ~DeviceWorkerTest() override {
    engine_.let_go();
    ::shutdown(ours_.fd(), SHUT_RDWR);
    thread_.join();
  }

  void tell(const Message& message) { ASSERT_TRUE(ours_.send(message)); }

  // The next answer, which must be of this type.
  template <class T>
  T next() {
    Result<Message> message = ours_.receive();
    EXPECT_TRUE(message) << (message ? "" : message.error().message);
    if (!message || !std::holds_alternative<T>(*message)) {
      ADD_FAILURE() << "got " << (message ? message_name(*message) : "the end");
      return T{};
    }
    return std::get<T>(std::move(*message));
  }

  void load(ModelId model = kModel) {
    tell(Load{{.model = model, .path = "any", .pool_tokens = 1000, .sequences = 8}});
    EXPECT_EQ(next<LoadDone>().loaded.model, model);
  }
  void open(std::uint32_t seq, std::uint32_t tokens = 4) {
    tell(Open{{kModel, SeqId{seq}, std::vector<std::int32_t>(tokens, 40), tokens, {}, 0, {}}});
  }
  void run(std::uint64_t id, std::vector<engine::RunItem> items) {
    tell(worker::Run{{RunId{id}, kModel, std::move(items), {}}});
  }
  // Makes sure that what was told so far has been read: sends more than the socket holds, so that
  // the last send can only return after the reading thread has taken everything before it.
  void overfill_socket() {
    for (int i = 0; i < 40000; ++i) tell(Drop{ModelId{99}, SeqId{0}});
  }

  GatedEngine engine_;
  std::pair<int, int> ends_;
  Channel ours_;
  std::thread thread_;
};

TEST_F(DeviceWorkerTest, LoadsOpensRunsInOrder) {
  load();
  open(0);
  open(1, 6);
  run(7, {{SeqId{0}, 4}, {SeqId{1}, 5}});
  run(8, {{SeqId{0}, 1}, {SeqId{1}, 1}});
  const engine::Ran first = next<RunDone>().ran;
  EXPECT_EQ(first.run, RunId{7});
  EXPECT_EQ(first.items[0].state, engine::ItemState::Sampled);
  EXPECT_EQ(first.items[1].state, engine::ItemState::Advanced);
  const engine::Ran second = next<RunDone>().ran;
  EXPECT_EQ(second.run, RunId{8});
  EXPECT_EQ(second.items[1].state, engine::ItemState::Sampled);
}

TEST_F(DeviceWorkerTest, FailuresAreAnswered) {
  tell(Load{{.model = kModel, .path = "any"}});
  EXPECT_EQ(next<LoadFailed>().error.code, Code::Invalid);
  open(0);
  EXPECT_EQ(next<OpenFailed>().error.code, Code::NotFound);
  run(1, {{SeqId{0}, 1}});
  EXPECT_EQ(next<RunFailed>().failed.error.code, Code::NotFound);
  tell(Unload{kModel});
  EXPECT_EQ(next<VerbFailed>().verb, "unload");
  tell(Save{{kModel, SeqId{3}, StateId{8}, 0, 1}});
  EXPECT_EQ(next<SaveFailed>().state, StateId{8});
  tell(Restore{{kModel, SeqId{3}, StateId{8}, 1}});
  EXPECT_EQ(next<RestoreFailed>().seq, SeqId{3});
  tell(LeaseTensor{{1, Bytes{1}}});
  EXPECT_EQ(next<VerbFailed>().error.code, Code::Unsupported);
  tell(ReleaseTensor{1});
  EXPECT_EQ(next<VerbFailed>().verb, "release");
}

TEST_F(DeviceWorkerTest, SavesRestoresAndReportsMemory) {
  load();
  open(0);
  run(1, {{SeqId{0}, 4}});
  next<RunDone>();
  tell(Save{{kModel, SeqId{0}, StateId{8}, 0, 3}});
  const engine::Saved saved = next<SaveDone>().saved;
  EXPECT_EQ(saved.state, StateId{8});
  EXPECT_GT(saved.bytes.count, 0);
  run(2, {{SeqId{0}, 1}});
  EXPECT_EQ(next<RunDone>().ran.items[0].state, engine::ItemState::Sampled);
  tell(AskMemory{});
  EXPECT_EQ(next<Memory>().report.host_saved, saved.bytes);
  tell(Forget{kModel, StateId{8}});
  tell(AskMemory{});
  EXPECT_EQ(next<Memory>().report.models.at(0).used_tokens, 5U);
  tell(SetThreads{3});
  EXPECT_EQ(engine_.threads().get(), 3U);
}

// The run in question is queued behind one that computes when the cancel arrives.
TEST_F(DeviceWorkerTest, CancelReachesARunThatIsQueued) {
  load();
  open(0);
  open(1);
  engine_.hold_runs();
  run(1, {{SeqId{0}, 4}});
  engine_.wait_until_held();
  run(2, {{SeqId{0}, 1}, {SeqId{1}, 4}});
  tell(Cancel{kModel, SeqId{0}});
  overfill_socket();
  engine_.let_go();
  EXPECT_EQ(next<RunDone>().ran.items[0].state, engine::ItemState::Sampled);
  const engine::Ran second = next<RunDone>().ran;
  ASSERT_EQ(second.items.size(), 2U);
  EXPECT_EQ(second.items[0].seq, SeqId{0});
  EXPECT_EQ(second.items[0].state, engine::ItemState::Skipped);
  EXPECT_EQ(second.items[1].seq, SeqId{1});
  EXPECT_EQ(second.items[1].state, engine::ItemState::Sampled);
}

TEST_F(DeviceWorkerTest, ARunOfCancelledSequencesAloneIsAnsweredAllTheSame) {
  load();
  open(0);
  tell(Cancel{kModel, SeqId{0}});
  run(5, {{SeqId{0}, 4}});
  const engine::Ran ran = next<RunDone>().ran;
  EXPECT_EQ(ran.run, RunId{5});
  ASSERT_EQ(ran.items.size(), 1U);
  EXPECT_EQ(ran.items[0].state, engine::ItemState::Skipped);
  EXPECT_EQ(ran.device, Duration{0});
}

TEST_F(DeviceWorkerTest, DropForgetsTheCancelSoTheNumberCanBeUsedAgain) {
  load();
  open(0);
  tell(Cancel{kModel, SeqId{0}});
  tell(Drop{kModel, SeqId{0}});
  open(0);
  run(1, {{SeqId{0}, 4}});
  EXPECT_EQ(next<RunDone>().ran.items[0].state, engine::ItemState::Sampled);
}

// Sent after the Open, but in force before the worker has reached it.
TEST_F(DeviceWorkerTest, ACancelOvertakesItsOpenAndStillCounts) {
  load();
  open(1);
  engine_.hold_runs();
  run(1, {{SeqId{1}, 4}});
  engine_.wait_until_held();
  open(0);
  run(2, {{SeqId{0}, 4}});
  tell(Cancel{kModel, SeqId{0}});
  overfill_socket();
  engine_.let_go();
  next<RunDone>();
  EXPECT_EQ(next<RunDone>().ran.items[0].state, engine::ItemState::Skipped);
}

TEST_F(DeviceWorkerTest, RunsGoOnWhileAnotherModelLoads) {
  load();
  open(0);
  engine_.hold_loads();
  const ModelId other{2};
  tell(Load{{.model = other, .path = "any", .pool_tokens = 100, .sequences = 8}});
  engine_.wait_until_held();
  run(1, {{SeqId{0}, 4}});
  EXPECT_EQ(next<RunDone>().ran.run, RunId{1});
  // What names the model that is being loaded is refused, not waited for.
  tell(Open{{other, SeqId{0}, {40}, 1, {}, 0, {}}});
  EXPECT_EQ(next<OpenFailed>().error.code, Code::Busy);
  tell(Load{{.model = other, .path = "any", .pool_tokens = 100, .sequences = 8}});
  EXPECT_EQ(next<LoadFailed>().error.code, Code::Busy);
  tell(Unload{other});
  EXPECT_EQ(next<VerbFailed>().error.code, Code::Busy);
  engine_.let_go();
  EXPECT_EQ(next<LoadDone>().loaded.model, other);
  tell(Open{{other, SeqId{0}, {40}, 1, {}, 0, {}}});
  tell(worker::Run{{RunId{2}, other, {{SeqId{0}, 1}}, {}}});
  EXPECT_EQ(next<RunDone>().ran.items[0].state, engine::ItemState::Sampled);
}

TEST_F(DeviceWorkerTest, AMessageThatMakesNoSenseClosesTheChannel) {
  tell(RenderChat{});
  const Result<Message> end = ours_.receive();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Code::Io);
}

TEST_F(DeviceWorkerTest, AnAnswerSentAsARequestClosesTheChannel) {
  tell(LoadDone{});
  EXPECT_FALSE(ours_.receive());
}

}  // namespace
}  // namespace lares::worker
