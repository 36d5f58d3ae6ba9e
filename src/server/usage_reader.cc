#include "server/usage_reader.h"

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {
namespace {

std::string_view by_name(store::UsageBy by) {
  switch (by) {
    case store::UsageBy::Member: return "member";
    case store::UsageBy::Class: return "class";
    case store::UsageBy::Model: return "model";
    case store::UsageBy::Day: return "day";
  }
  return "member";
}

}  // namespace

UsageReader::UsageReader(Sum sum, std::uint32_t queue_max)
    : sum_(std::move(sum)),
      queue_max_(queue_max),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

UsageReader::~UsageReader() = default;

void UsageReader::ask(store::UsageBy by, std::optional<MemberId> of,
                      const std::shared_ptr<Answer>& answer) {
  ask([this, by, of]() -> Result<std::string> { return usage_body(by, TRY(sum_(by, of))); },
      answer);
}

void UsageReader::ask(std::function<Result<std::string>()> question,
                      std::shared_ptr<Answer> answer) {
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() < queue_max_) {
      waiting_.push_back(Question{std::move(question), std::move(answer)});
      wake_.notify_one();
      return;
    }
  }
  ApiError busy;
  busy.code = Code::Busy;
  busy.message = fmt::format("{} questions to the usage ledger wait already", queue_max_);
  answer->fail(busy);
}

void UsageReader::run(const std::stop_token& stop) {
  while (true) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
    const Question question = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    auto body = question.body();
    if (body) {
      question.answer->respond(json_response(std::move(*body)));
    } else {
      ApiError error;
      error.code = body.error().code;
      error.message = body.error().message;
      question.answer->fail(error);
    }
  }
}

std::string usage_body(store::UsageBy by, const std::vector<store::UsageSum>& sums) {
  std::string out = fmt::format("{{\"object\":\"list\",\"by\":\"{}\",\"data\":[", by_name(by));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const store::UsageSum& sum = sums[i];
    if (i != 0) out += ',';
    out += "{\"key\":\"";
    append_json_escaped(out, sum.key);
    fmt::format_to(std::back_inserter(out),
                   "\",\"requests\":{},\"failed\":{},\"cancelled\":{},\"prompt_tokens\":{},"
                   "\"cached_tokens\":{},\"output_tokens\":{},\"device_seconds\":{},"
                   "\"queue_wait_seconds_mean\":{},\"first_token_seconds_mean\":{}}}",
                   sum.requests, sum.failed, sum.cancelled, sum.prompt_tokens, sum.cached_tokens,
                   sum.output_tokens, sum.device_s, sum.queue_wait_s_mean, sum.first_token_s_mean);
  }
  out += "]}";
  return out;
}

}  // namespace lares::server
