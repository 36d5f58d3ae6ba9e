// Latents in the journal.
#include <filesystem>

#include <gtest/gtest.h>

#include "core/test_folder.h"
#include "store/journal.h"

namespace lares::store {
namespace {

class Latents : public ::testing::Test {
 protected:
  Latents()
      : folder_(test_file(std::string("latents-") +
                          ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        journal_(std::move(*Journal::open(folder_))) {}

  // Runs it in a transaction of its own.
  template <class Work>
  auto in(Work work) {
    EXPECT_TRUE(journal_->begin());
    auto done = work(*journal_);
    EXPECT_TRUE(done);
    EXPECT_TRUE(journal_->commit());
    return done;
  }
  void put(const std::string& id, const std::string& bytes, std::int64_t expires = 1000,
           std::int64_t created = 1) {
    LatentRecord latent;
    latent.id = id;
    latent.member_id = MemberId{3};
    latent.name = "small";
    latent.space = "sd";
    latent.family = "KL-f8";
    latent.channels = 4;
    latent.factor = 8;
    latent.scale_millionths = 182150;
    latent.width = latent.height = 64;
    latent.noise = LatentNoise{8, 20, "euler", 7'000'000, ~std::uint64_t{0}};
    latent.created_unix_ms = created;
    latent.expires_unix_ms = expires;
    in([&](Journal& journal) { return journal.put_latent(latent, bytes); });
  }
  [[nodiscard]] std::string bytes_of(std::string_view id) {
    return in([&](Journal& j) { return j.latent_bytes(id); })->value_or("gone");
  }

  std::string folder_;
  std::unique_ptr<Journal> journal_;
};

TEST_F(Latents, OneIsThereWithWhatItMeansAfterARestart) {
  const std::string large(100'000, 'x');
  put("a", large);
  put("b", "small");
  in([](Journal& journal) { return journal.share_latent("a", MemberId{5}); });
  in([](Journal& journal) { return journal.share_latent("a", MemberId{5}); });
  journal_.reset();
  journal_ = std::move(*Journal::open(folder_));
  const auto all = *journal_->latents();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].member_id, MemberId{3});
  EXPECT_EQ(all[0].scale_millionths, 182150);
  EXPECT_EQ(all[0].size, large.size());
  EXPECT_EQ(all[0].noise, (LatentNoise{8, 20, "euler", 7'000'000, ~std::uint64_t{0}}));
  EXPECT_EQ(all[0].shared, std::vector{MemberId{5}});
  EXPECT_TRUE(all[1].shared.empty());
  EXPECT_EQ(bytes_of("a"), large);
  EXPECT_EQ(bytes_of("b"), "small");
  EXPECT_EQ(bytes_of("c"), "gone");
  EXPECT_TRUE(journal_->check()->empty());
}

TEST_F(Latents, TheSameIdAgainTakesItsPlace) {
  put("a", std::string(100'000, 'x'));
  put("a", std::string(100'000, 'y'));
  EXPECT_EQ(bytes_of("a").front(), 'y');
  EXPECT_EQ(journal_->latents()->size(), 1U);
  EXPECT_TRUE(journal_->check()->empty());
}

TEST_F(Latents, ItGoesWhenItsTimeIsOver) {
  put("a", std::string(100'000, 'x'), 1000);
  put("b", "x", 3000);
  EXPECT_EQ(*in([](Journal& j) { return j.retain({}, 999); }), 0U);
  EXPECT_EQ(*in([](Journal& j) { return j.retain({}, 1000); }), 1U);
  EXPECT_EQ(bytes_of("a"), "gone");
  EXPECT_EQ(bytes_of("b"), "x");
  const auto all = *journal_->latents();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].gone_unix_ms, 1000);
  EXPECT_TRUE(journal_->check()->empty());
  // And is forgotten long after.
  const Retention limits;
  const std::int64_t later = 2000 + limits.keep_expired.count() / 1'000'000;
  in([&](Journal& j) { return j.retain(limits, later); });
  EXPECT_EQ(journal_->latents()->size(), 1U);
}

TEST_F(Latents, TheOldestGoesFirstWhenThereIsNoRoom) {
  put("new", std::string(80'000, 'n'), 1'000'000, 20);
  put("old", std::string(80'000, 'o'), 1'000'000, 10);
  Retention limits;
  limits.bytes_max = Bytes{100'000};
  EXPECT_EQ(*in([&](Journal& j) { return j.retain(limits, 30); }), 1U);
  EXPECT_EQ(bytes_of("old"), "gone");
  EXPECT_EQ(bytes_of("new").size(), 80'000U);
}

TEST_F(Latents, ABackupHasThem) {
  put("a", std::string(100'000, 'x'));
  const std::string copy = folder_ + "-copy";
  std::filesystem::create_directories(copy);
  ASSERT_TRUE(journal_->backup(copy + "/lares.db"));
  journal_ = std::move(*Journal::open(copy));
  EXPECT_EQ(bytes_of("a").size(), 100'000U);
  EXPECT_TRUE(journal_->check()->empty());
}

}  // namespace
}  // namespace lares::store
