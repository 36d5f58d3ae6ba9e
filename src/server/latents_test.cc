#include "server/latents.h"

#include <condition_variable>

#include <gtest/gtest.h>

#include "core/test_folder.h"

namespace lares::server {
namespace {

constexpr MemberId kEve{1}, kBen{2};

class LatentIndex : public ::testing::Test {
 protected:
  LatentIndex()
      : writer_(std::make_shared<JournalWriter>(std::move(*store::Journal::open(
            test_file(std::string("latent-index-") +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name()))))),
        latents_(writer_, [this] { return now_; }) {}
  ~LatentIndex() override { writer_->stop(); }

  // Waits for what is answered on the journal's thread.
  template <class T>
  T wait_for(std::function<void(std::function<void(T)>)> ask) {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<T> got;
    ask([&](T value) {
      const std::scoped_lock lock(mutex);
      got = std::move(value);
      changed.notify_one();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return got.has_value(); });
    return std::move(*got);
  }
  Result<> keep(const std::string& id, const std::vector<float>& values,
                std::int64_t expires = 1000) {
    store::LatentRecord record;
    record.id = id;
    record.member_id = kEve;
    record.space = "sd";
    record.family = "KL-f8";
    record.channels = 4;
    record.factor = 8;
    record.scale_millionths = 182150;
    record.width = 2;
    record.height = 1;
    record.created_unix_ms = now_;
    record.expires_unix_ms = expires;
    return wait_for<Result<>>(
        [&](auto done) { latents_.keep(record, latent_bytes(values), std::move(done)); });
  }
  Result<KeptLatents> read(const std::string& id) {
    return wait_for<Result<KeptLatents>>([&](auto done) { latents_.read({id}, std::move(done)); });
  }
  Latents::Standing standing(const std::string& id, MemberId member) {
    return latents_.find(id, member).standing;
  }

  std::int64_t now_ = 10;
  std::shared_ptr<JournalWriter> writer_;
  Latents latents_;
};

const std::vector<float> kValues{1, 2, 3, 4, 5, 6, 7, -0.5F};

TEST_F(LatentIndex, WhatIsKeptIsReadAsItWas) {
  ASSERT_TRUE(keep("a", kValues));
  const auto found = read("a");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->at("a")->latent.values, kValues);
  EXPECT_EQ(found->at("a")->latent.size, (engine::PictureSize{16, 8}));
  const auto kept = latents_.kept(kEve);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].cells, (sketch::Size{2, 1}));
  EXPECT_EQ(kept[0].space.facts(), "KL-f8, x0.18215");
  EXPECT_FALSE(kept[0].expired);
}

TEST_F(LatentIndex, AnotherMemberHearsNothingUntilItIsShared) {
  ASSERT_TRUE(keep("a", kValues));
  EXPECT_EQ(standing("a", kEve), Latents::Standing::There);
  EXPECT_EQ(standing("a", kBen), Latents::Standing::Unknown);
  EXPECT_TRUE(latents_.kept(kBen).empty());
  EXPECT_TRUE(latents_.list(kBen).empty());
  ASSERT_TRUE(wait_for<Result<>>([&](auto done) { latents_.share("a", kBen, std::move(done)); }));
  EXPECT_EQ(standing("a", kBen), Latents::Standing::There);
  EXPECT_EQ(latents_.list(kBen).size(), 1U);
}

TEST_F(LatentIndex, WhatIsOverIsGoneAndNotUnknown) {
  ASSERT_TRUE(keep("a", kValues, 20));
  ASSERT_TRUE(keep("b", kValues));
  now_ = 20;
  EXPECT_EQ(standing("a", kEve), Latents::Standing::Gone);
  EXPECT_TRUE(latents_.kept(kEve)[0].expired);
  ASSERT_TRUE(wait_for<Result<>>([&](auto done) { latents_.remove("b", std::move(done)); }));
  EXPECT_EQ(standing("b", kEve), Latents::Standing::Gone);
  EXPECT_EQ(read("b").error().code, Code::NotFound);
  EXPECT_TRUE(latents_.list(kEve).empty());
  EXPECT_EQ(standing("c", kEve), Latents::Standing::Unknown);
}

TEST_F(LatentIndex, ValuesThatAreNotAsManyAsWasSaidAreRefused) {
  ASSERT_TRUE(keep("a", {1, 2, 3}));
  EXPECT_EQ(read("a").error().code, Code::Corrupt);
}

TEST_F(LatentIndex, OneMemberHasALimit) {
  std::vector<store::LatentRecord> many(Latents::kEachMax);
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i].id = std::to_string(i);
    many[i].member_id = kEve;
    many[i].expires_unix_ms = 1000;
  }
  latents_.load(many);
  EXPECT_EQ(keep("a", kValues).error().code, Code::TooLarge);
  many[0].gone_unix_ms = 5;
  latents_.load(many);
  EXPECT_TRUE(keep("a", kValues));
}

}  // namespace
}  // namespace lares::server
