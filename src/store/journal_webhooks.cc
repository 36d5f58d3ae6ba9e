// The journal's webhooks: due from the moment that their job is over, until somebody has heard.
#include "store/journal.h"

namespace lares::store {

Result<> Journal::add_webhook(std::int64_t seq, std::string_view url) {
  Statement insert =
      TRY(database_.prepare("INSERT INTO webhook (job, url, state) VALUES (?,?,'waiting')"));
  insert.bind(seq);
  insert.bind(url);
  return insert.run();
}

Result<std::optional<Webhook>> Journal::webhook(std::int64_t seq) {
  Statement query = TRY(database_.prepare(
      "SELECT url, state, tries, due_unix_ms, reason FROM webhook WHERE job = ?"));
  query.bind(seq);
  if (!TRY(query.row())) return std::optional<Webhook>();
  return std::optional(Webhook{std::string(query.text(0)), std::string(query.text(1)),
                               static_cast<std::uint32_t>(query.integer(2)), query.integer(3),
                               std::string(query.text(4))});
}

Result<> Journal::set_webhook_due(std::int64_t seq, std::int64_t unix_ms) {
  Statement due =
      TRY(database_.prepare("UPDATE webhook SET state = 'due', tries = 0, due_unix_ms = ? "
                            "WHERE job = ?"));
  due.bind(unix_ms);
  due.bind(seq);
  return due.run();
}

Result<std::vector<DueWebhook>> Journal::due_webhooks(std::int64_t unix_ms, std::uint32_t limit) {
  Statement query =
      TRY(database_.prepare("SELECT job.id, url, webhook.tries FROM webhook JOIN job ON seq = job "
                            "WHERE webhook.state = 'due' AND due_unix_ms <= ? AND "
                            "ended_unix_ms IS NOT NULL ORDER BY due_unix_ms, job LIMIT ?"));
  query.bind(unix_ms);
  query.bind(std::int64_t{limit});
  std::vector<DueWebhook> due;
  while (TRY(query.row())) {
    auto job = TRY(find(query.text(0)));
    if (!job) continue;
    due.push_back({std::move(*job), std::string(query.text(1)),
                   static_cast<std::uint32_t>(query.integer(2))});
  }
  return due;
}

Result<> Journal::save_webhook(std::int64_t seq, const Webhook& webhook) {
  // One whose job was tried again meanwhile waits for its end anew.
  Statement update =
      TRY(database_.prepare("UPDATE webhook SET state = ?, tries = ?, due_unix_ms = ?, reason = ? "
                            "WHERE job = ? AND state = 'due'"));
  update.bind(webhook.state);
  update.bind(std::int64_t{webhook.tries});
  update.bind(webhook.due_unix_ms);
  update.bind(webhook.reason);
  update.bind(seq);
  return update.run();
}

}  // namespace lares::store
