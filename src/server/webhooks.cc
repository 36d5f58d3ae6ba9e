#include "server/webhooks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/base64.h"
#include "core/log.h"
#include "server/job_json.h"
#include "store/key.h"

namespace lares::server {
namespace {

constexpr std::uint32_t kAtOnce = 64;  // Read from the journal.
constexpr std::size_t kSecretBytes = 32;
constexpr int kGone = 410;

std::string body_of(const store::JobRecord& job, std::int64_t seconds) {
  return fmt::format(R"({{"type":"job.{}","timestamp":{},"data":{}}})",
                     store::job_state_name(job.state), seconds, job_json(job));
}

}  // namespace

Duration webhook_wait(const WebhooksOptions& options, std::uint32_t tries) {
  Duration wait = options.first_wait;
  for (std::uint32_t i = 1; i < tries && wait < options.wait_max; ++i) wait *= 3;
  return std::min(wait, options.wait_max);
}

Webhooks::Webhooks(std::shared_ptr<JournalWriter> journal, std::unique_ptr<Resolver> resolver,
                   std::unique_ptr<Transport> transport, WebhooksOptions options)
    : journal_(std::move(journal)),
      resolver_(std::move(resolver)),
      transport_(std::move(transport)),
      options_(std::move(options)) {
  LARES_ASSERT(options_.unix_ms && options_.secret.size() == kSecretBytes,
               "webhooks need a clock and a secret");
  for (std::uint32_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { run(); });
}

Webhooks::~Webhooks() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<> Webhooks::check(std::string_view url) const {
  const WebhookUrl parsed = TRY(parse_webhook_url(url));
  const auto literal = parse_address(parsed.host);
  const bool inside = (literal && !is_public(*literal)) || parsed.host == "localhost" ||
                      parsed.host.ends_with(".localhost");
  if (!inside || options_.private_too) return {};
  return fail(Code::Forbidden, fmt::format("leads to {}, which is not on the internet; "
                                           "`webhooks.reach = \"any\"` would allow it",
                                           parsed.host));
}

std::string Webhooks::key_of(MemberId member) const {
  return store::hmac_sha256(options_.secret, fmt::format("lares webhook {}", member.value));
}

std::string Webhooks::secret_of(MemberId member) const {
  return "whsec_" + base64_of(key_of(member));
}

void Webhooks::look() {
  {
    const std::scoped_lock lock(mutex_);
    if (looking_ || stop_ || waiting_.size() >= kAtOnce) return;
    looking_ = true;
  }
  const auto due = std::make_shared<std::vector<store::DueWebhook>>();
  JournalOp op;
  op.work = [due, now = options_.unix_ms()](store::Journal& journal) -> Result<> {
    *due = TRY(journal.due_webhooks(now, kAtOnce));
    return {};
  };
  op.done = [this, due](const Result<>& /*read*/) {
    const std::scoped_lock lock(mutex_);
    looking_ = false;
    for (store::DueWebhook& one : *due) {
      if (out_.insert(one.job.seq).second) waiting_.push_back(std::move(one));
    }
    wake_.notify_all();
  };
  journal_->post(std::move(op));
}

void Webhooks::run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
    }
    deliver_next();
  }
}

bool Webhooks::deliver_next() {
  store::DueWebhook due;
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_.empty()) return false;
    due = std::move(waiting_.front());
    waiting_.pop_front();
  }
  bool hopeless = false;
  const Result<> sent = send(due, hopeless);
  settle(due, sent, hopeless);
  return true;
}

// Resolved once: the connection goes to what was looked at here.
Result<NetAddress> Webhooks::address_of(const WebhookUrl& url) {
  std::vector<NetAddress> addresses;
  if (const auto literal = parse_address(url.host)) {
    addresses.push_back(*literal);
  } else {
    addresses = TRY(resolver_->resolve(url.host));
  }
  for (const NetAddress& address : addresses) {
    if (options_.private_too || is_public(address)) return address;
  }
  return fail(Code::Forbidden, addresses.empty()
                                   ? fmt::format("{} has no address", url.host)
                                   : fmt::format("{} is {}, which is not on the internet; "
                                                 "`webhooks.reach = \"any\"` would allow it",
                                                 url.host, addresses.front().text()));
}

Result<> Webhooks::send(const store::DueWebhook& due, bool& hopeless) {
  const WebhookUrl url = TRY(parse_webhook_url(due.url));
  const NetAddress address = TRY(address_of(url));
  const std::int64_t seconds = options_.unix_ms() / 1000;
  const std::string id = fmt::format("{}.{}", due.job.id, due.job.ended_unix_ms);
  const std::string body = body_of(due.job, seconds);
  const std::string signature = base64_of(
      store::hmac_sha256(key_of(due.job.member_id), fmt::format("{}.{}.{}", id, seconds, body)));
  const Headers headers{{"webhook-id", id},
                        {"webhook-timestamp", fmt::format("{}", seconds)},
                        {"webhook-signature", "v1," + signature},
                        {"User-Agent", "lares"}};
  const int status = TRY(transport_->post(url, address, headers, body, options_.deadline));
  if (status >= 200 && status < 300) return {};
  hopeless = status == kGone;
  return fail(Code::Unavailable, fmt::format("the receiver answered with status {}", status));
}

void Webhooks::settle(const store::DueWebhook& due, const Result<>& sent, bool hopeless) {
  store::Webhook after;
  after.url = due.url;
  after.state = "done";
  after.tries = due.tries + 1;
  if (!sent) {
    after.reason = sent.error().message;
    const bool again = after.tries < options_.tries && !hopeless;
    after.state = again ? "due" : "failed";
    if (again) {
      const Duration wait = webhook_wait(options_, after.tries);
      after.due_unix_ms = options_.unix_ms() + wait.count() / 1'000'000;
    }
    log_warn("a webhook was not delivered",
             {{"job", due.job.id}, {"try", after.tries}, {"why", after.reason}});
  }
  JournalOp op;
  op.must = true;
  op.work = [seq = due.job.seq, after](store::Journal& journal) {
    return journal.save_webhook(seq, after);
  };
  op.done = [this, seq = due.job.seq](const Result<>& /*written*/) {
    const std::scoped_lock lock(mutex_);
    out_.erase(seq);
  };
  journal_->post(std::move(op));
}

Result<std::string> webhook_secret(const std::string& folder) {
  const std::string path = folder + "/webhook.secret";
  const int made = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (made >= 0) {
    const auto random = store::random_bytes(kSecretBytes);
    const bool good =
        random &&
        ::write(made, random->data(), random->size()) == static_cast<ssize_t>(random->size()) &&
        ::fsync(made) == 0;
    ::close(made);
    if (!good) {
      ::unlink(path.c_str());
      return fail(Code::Io, fmt::format("{} cannot be written", path));
    }
    return *random;
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(Code::Io, fmt::format("{}: {}", path, std::strerror(errno)));
  std::string secret(kSecretBytes + 1, '\0');
  const ssize_t got = ::read(fd, secret.data(), secret.size());
  ::close(fd);
  if (got != static_cast<ssize_t>(kSecretBytes)) {
    return fail(Code::Corrupt, fmt::format("{} does not hold a secret; take it away, and the next "
                                           "start makes a new one",
                                           path));
  }
  secret.resize(kSecretBytes);
  return secret;
}

}  // namespace lares::server
