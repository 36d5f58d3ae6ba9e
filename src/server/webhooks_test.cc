// Deliveries with a resolver, a transport and a clock of the test's own.
#include "server/webhooks.h"

#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "core/base64.h"
#include "core/test_folder.h"
#include "store/key.h"

namespace lares::server {
namespace {

NetAddress at(std::string_view address) {
  return *parse_address(address);
}

class Names final : public Resolver {
 public:
  Result<std::vector<NetAddress>> resolve(const std::string& host) override {
    ++asked;
    const auto found = known.find(host);
    if (found == known.end()) return fail(Code::Unavailable, "not found");
    return found->second;
  }
  std::map<std::string, std::vector<NetAddress>> known;
  int asked = 0;
};

struct Sent {
  std::string host;
  NetAddress address;
  Headers headers;
  std::string body;
};

class Wire final : public Transport {
 public:
  Result<int> post(const WebhookUrl& url, const NetAddress& address, const Headers& headers,
                   const std::string& body, Duration) override {
    sent.push_back({url.host, address, headers, body});
    if (dead) return fail(Code::Unavailable, "nobody there");
    return status;
  }
  std::vector<Sent> sent;
  int status = 200;
  bool dead = false;
};

class Deliveries : public ::testing::Test {
 protected:
  Deliveries() { start(); }
  ~Deliveries() override { stop(); }

  void start(bool private_too = false) {
    writer_ = std::make_shared<JournalWriter>(std::move(*store::Journal::open(
        test_file(std::string("webhooks-") +
                  ::testing::UnitTest::GetInstance()->current_test_info()->name()))));
    auto names = std::make_unique<Names>();
    auto wire = std::make_unique<Wire>();
    names_ = names.get();
    wire_ = wire.get();
    names_->known["example.org"] = {at("93.184.216.34")};
    WebhooksOptions options;
    options.secret = std::string(32, 's');
    options.private_too = private_too;
    options.tries = 4;
    options.threads = 0;
    options.unix_ms = [this] { return now_; };
    hooks_ =
        std::make_unique<Webhooks>(writer_, std::move(names), std::move(wire), std::move(options));
  }
  void stop() {
    writer_->stop();
    hooks_.reset();
    writer_.reset();
  }
  // Does it on the journal's thread, and waits.
  void in(std::function<Result<>(store::Journal&)> work) {
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;
    JournalOp op;
    op.work = std::move(work);
    op.done = [&](const Result<>& done) {
      EXPECT_TRUE(done);
      const std::scoped_lock lock(mutex);
      over = true;
      changed.notify_one();
    };
    writer_->post(std::move(op));
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return over; });
  }
  void end_job(const std::string& id, const std::string& url) {
    in([&](store::Journal& journal) -> Result<> {
      store::NewJob job;
      job.id = id;
      job.member_id = MemberId{3};
      job.kind = "/v1/completions";
      job.webhook = url;
      const auto seq = TRY(journal.add(job)).seq;
      TRY(journal.begin_attempt(seq, now_));
      store::JobEnd end;
      end.unix_ms = now_;
      return journal.end(seq, end);
    });
  }
  // Sends all that is due; how many that was.
  int deliver() {
    hooks_->look();
    in([](store::Journal&) { return Result<>(); });
    int count = 0;
    while (hooks_->deliver_next()) ++count;
    in([](store::Journal&) { return Result<>(); });
    return count;
  }
  store::Webhook webhook_of(const std::string& id) {
    store::Webhook found;
    in([&](store::Journal& journal) -> Result<> {
      found = TRY(journal.webhook(TRY(journal.find(id))->seq)).value();
      return {};
    });
    return found;
  }
  static std::string header(const Sent& sent, const std::string& name) {
    for (const auto& [key, value] : sent.headers) {
      if (key == name) return value;
    }
    return "";
  }

  std::int64_t now_ = 1'000'000;
  std::shared_ptr<JournalWriter> writer_;
  std::unique_ptr<Webhooks> hooks_;
  Names* names_ = nullptr;
  Wire* wire_ = nullptr;
};

TEST_F(Deliveries, AreSignedAndSentOnce) {
  end_job("job_a", "https://example.org/hook");
  EXPECT_EQ(deliver(), 1);
  EXPECT_EQ(deliver(), 0);
  ASSERT_EQ(wire_->sent.size(), 1U);
  const Sent& sent = wire_->sent[0];
  EXPECT_EQ(sent.address, at("93.184.216.34"));
  EXPECT_NE(sent.body.find(R"("type":"job.done")"), std::string::npos);
  EXPECT_EQ(header(sent, "webhook-timestamp"), "1000");
  const std::string secret = hooks_->secret_of(MemberId{3});
  EXPECT_TRUE(secret.starts_with("whsec_"));
  EXPECT_NE(secret, hooks_->secret_of(MemberId{4}));
  const std::string key = *read_base64(secret.substr(6));
  EXPECT_EQ(header(sent, "webhook-signature"),
            "v1," + base64_of(store::hmac_sha256(
                        key, header(sent, "webhook-id") + ".1000." + sent.body)));
  EXPECT_EQ(webhook_of("job_a").state, "done");
}

TEST_F(Deliveries, AreTriedAgainWithGrowingWaitsAndNotForEver) {
  end_job("job_a", "http://example.org/");
  wire_->status = 503;
  std::vector<std::int64_t> waits;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(deliver(), 1);
    const store::Webhook webhook = webhook_of("job_a");
    EXPECT_EQ(webhook.state, "due");
    waits.push_back(webhook.due_unix_ms - now_);
    now_ = webhook.due_unix_ms - 1;
    EXPECT_EQ(deliver(), 0);
    ++now_;
  }
  EXPECT_EQ(waits, (std::vector<std::int64_t>{5'000, 15'000, 45'000}));
  wire_->dead = true;
  EXPECT_EQ(deliver(), 1);
  EXPECT_EQ(webhook_of("job_a").state, "failed");
  EXPECT_EQ(webhook_of("job_a").reason, "nobody there");
  now_ += 1'000'000'000;
  EXPECT_EQ(deliver(), 0);
  // All of them were the same message.
  ASSERT_EQ(wire_->sent.size(), 4U);
  EXPECT_EQ(header(wire_->sent[0], "webhook-id"), header(wire_->sent[3], "webhook-id"));
}

TEST_F(Deliveries, EndWhenTheReceiverIsGoneForGood) {
  end_job("job_a", "http://example.org/");
  wire_->status = 410;
  EXPECT_EQ(deliver(), 1);
  EXPECT_EQ(webhook_of("job_a").state, "failed");
  EXPECT_EQ(webhook_of("job_a").tries, 1U);
}

TEST_F(Deliveries, GoOnAfterARestart) {
  end_job("job_a", "http://example.org/");
  wire_->status = 500;
  deliver();
  stop();
  start();
  EXPECT_EQ(deliver(), 0);
  now_ += 5'000;
  EXPECT_EQ(deliver(), 1);
  EXPECT_EQ(webhook_of("job_a").state, "done");
}

TEST_F(Deliveries, GoToTheAddressThatWasLookedAtAndToNoneInside) {
  names_->known["inside.example"] = {at("10.0.0.7"), at("::1")};
  names_->known["both.example"] = {at("192.168.0.1"), at("2606:4700::1")};
  names_->known["nowhere.example"] = {};
  end_job("job_a", "http://inside.example/");
  end_job("job_b", "http://both.example/");
  end_job("job_c", "http://nowhere.example/");
  end_job("job_d", "http://169.254.169.254/");
  EXPECT_EQ(deliver(), 4);
  ASSERT_EQ(wire_->sent.size(), 1U);
  EXPECT_EQ(wire_->sent[0].address, at("2606:4700::1"));
  EXPECT_NE(webhook_of("job_a").reason.find("10.0.0.7"), std::string::npos);
  EXPECT_EQ(names_->asked, 3);
  // Allowed, they go there.
  stop();
  start(true);
  names_->known["inside.example"] = {at("10.0.0.7")};
  now_ += 5'000;
  deliver();
  EXPECT_EQ(wire_->sent[0].address, at("10.0.0.7"));
  EXPECT_EQ(webhook_of("job_a").state, "done");
}

TEST_F(Deliveries, UrlsAreLookedAtBeforeAJobIsTakenOn) {
  EXPECT_TRUE(hooks_->check("https://example.org/x"));
  for (const char* url : {"http://127.0.0.1/", "http://localhost/", "http://a.localhost/",
                          "http://[::ffff:10.0.0.1]/", "gopher://example.org/"})
    EXPECT_FALSE(hooks_->check(url)) << url;
}

TEST(Webhook, WaitsHaveALimit) {
  const WebhooksOptions options;
  EXPECT_EQ(webhook_wait(options, 1), std::chrono::seconds(5));
  EXPECT_EQ(webhook_wait(options, 2), std::chrono::seconds(15));
  EXPECT_EQ(webhook_wait(options, 60), std::chrono::hours(1));
}

TEST(Webhook, TheSecretOfAFolderStays) {
  const std::string folder = test_file("webhook-secret");
  std::filesystem::create_directories(folder);
  const auto made = webhook_secret(folder);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->size(), 32U);
  EXPECT_EQ(*webhook_secret(folder), *made);
  std::filesystem::resize_file(folder + "/webhook.secret", 5);
  EXPECT_EQ(webhook_secret(folder).error().code, Code::Corrupt);
}

}  // namespace
}  // namespace lares::server
