// Tells receivers that jobs are over: what is due in the journal is sent, and sent again with
// growing waits, until somebody has heard or enough was tried.
//
//   POST URL   {"type":"job.done","timestamp":1735689600,"data":{"id":"job_...",...}}
//
// Signed as Standard Webhooks are: `webhook-id`, `webhook-timestamp`, and in `webhook-signature`
// "v1," and the base64 of HMAC-SHA256 over "ID.TIMESTAMP.BODY". Each member has a secret of their
// own, made from the server's. A redirect is not followed: it is an answer like any other that is
// not 2xx. 410 ends the tries.
//
// Threads of its own send; look() is called on the journal's. What is on its way when the server
// dies is sent once more: receivers know it by its id.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/result.h"
#include "server/journal_writer.h"
#include "server/webhook_transport.h"
#include "store/webhook_record.h"

namespace lares::server {

struct WebhooksOptions {
  std::string secret;        // Of the server: 32 bytes. Required.
  bool private_too = false;  // Addresses that are not the internet's may be called.
  std::uint32_t tries = 8;   // About three hours in all.
  Duration first_wait = std::chrono::seconds(5);
  Duration wait_max = std::chrono::hours(1);
  Duration deadline = std::chrono::seconds(10);  // Of one try.
  std::uint32_t threads = 2;                     // 0: deliver_next() is called by somebody.
  std::function<std::int64_t()> unix_ms;         // Required.
};

class Webhooks {
 public:
  Webhooks(std::shared_ptr<JournalWriter> journal, std::unique_ptr<Resolver> resolver,
           std::unique_ptr<Transport> transport, WebhooksOptions options);
  Webhooks(const Webhooks&) = delete;
  Webhooks& operator=(const Webhooks&) = delete;
  ~Webhooks();  // Waits for the tries that are under way.

  // Any thread. What can be seen to be wrong before a job is taken on. Errors: Invalid, Forbidden.
  [[nodiscard]] Result<> check(std::string_view url) const;
  // What a member's receivers verify signatures with: "whsec_" and base64.
  [[nodiscard]] std::string secret_of(MemberId member) const;

  // Asks the journal for what is due.
  void look();
  // Sends one; false if none waits.
  bool deliver_next();

 private:
  void run();
  Result<> send(const store::DueWebhook& due, bool& hopeless);
  Result<NetAddress> address_of(const WebhookUrl& url);
  void settle(const store::DueWebhook& due, const Result<>& sent, bool hopeless);
  [[nodiscard]] std::string key_of(MemberId member) const;

  const std::shared_ptr<JournalWriter> journal_;
  const std::unique_ptr<Resolver> resolver_;
  const std::unique_ptr<Transport> transport_;
  const WebhooksOptions options_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<store::DueWebhook> waiting_;
  std::set<std::int64_t> out_;  // Jobs whose webhook waits here or is being sent.
  bool looking_ = false, stop_ = false;
  std::vector<std::thread> threads_;
};

// How long after so many tries the next is made: three times as long each time.
Duration webhook_wait(const WebhooksOptions& options, std::uint32_t tries);

// The server's secret of the data folder, made if there is none yet: FOLDER/webhook.secret.
Result<std::string> webhook_secret(const std::string& folder);

}  // namespace lares::server
