#include "worker/supervisor_threads.h"

#include <thread>
#include <utility>

#include <sys/socket.h>

#include "worker/worker.h"

namespace lares::worker {
namespace {

class ThreadWorker : public Worker {
 public:
  // `run` is the worker's loop with an engine of its own.
  ThreadWorker(int our_fd, int their_fd, std::function<void(Channel&)> run)
      : channel_(our_fd), thread_([their_fd, run = std::move(run)] {
          Channel theirs(their_fd);
          run(theirs);
        }) {}
  ThreadWorker(const ThreadWorker&) = delete;
  ThreadWorker& operator=(const ThreadWorker&) = delete;
  ~ThreadWorker() override {
    kill();
    thread_.join();
  }

  Channel& channel() override { return channel_; }
  pid_t pid() const override { return 0; }
  void kill() override { ::shutdown(channel_.fd(), SHUT_RDWR); }

 private:
  Channel channel_;
  std::thread thread_;
};

class ThreadWorkers : public WorkerFactory {
 public:
  explicit ThreadWorkers(ThreadOptions options) : options_(std::move(options)) {}

  Result<std::unique_ptr<Worker>> start(Kind kind) override {
    const std::pair<int, int> ends = TRY(socket_pair());
    std::function<void(Channel&)> run;
    if (kind == Kind::Device) {
      run = [make = options_.make_device_engine](Channel& channel) {
        const std::unique_ptr<engine::Engine> engine = make();
        run_device_worker(channel, *engine);
      };
    } else {
      run = [make = options_.make_text_engine](Channel& channel) {
        const std::unique_ptr<text::TextEngine> engine = make();
        run_text_worker(channel, *engine);
      };
    }
    return std::make_unique<ThreadWorker>(ends.first, ends.second, std::move(run));
  }

  Result<engine::ModelInfo> probe(const std::string& path) override { return options_.probe(path); }

 private:
  ThreadOptions options_;
};

}  // namespace

std::unique_ptr<WorkerFactory> thread_workers(ThreadOptions options) {
  return std::make_unique<ThreadWorkers>(std::move(options));
}

std::unique_ptr<WorkerFactory> thread_workers(
    std::function<std::unique_ptr<engine::Engine>()> make_device_engine,
    std::function<std::unique_ptr<text::TextEngine>()> make_text_engine) {
  ThreadOptions options;
  options.make_device_engine = std::move(make_device_engine);
  options.make_text_engine = std::move(make_text_engine);
  options.probe = [](const std::string& /*path*/) -> Result<engine::ModelInfo> {
    return engine::sim_model_info({});
  };
  return thread_workers(std::move(options));
}

}  // namespace lares::worker
