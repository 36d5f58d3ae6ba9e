#include "server/route_texts.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "server/routes.h"

namespace lares::server {
namespace {

TEST(ApiReference, EveryRouteHasAText) {
  const auto routes = route_list();
  for (const RouteInfo& route : routes) {
    EXPECT_FALSE(route_text(route.method, route.path).empty())
        << route.method << " " << route.path << " has no text in route_texts.cc";
  }
  EXPECT_EQ(route_text_count(), routes.size()) << "a text without a route, or one that comes twice";
  EXPECT_EQ(route_text("GET", "/nowhere"), "");
}

// Run with LARES_BLESS=1 after a change of the table.
TEST(ApiReference, ThePageIsWhatTheTableSays) {
  const std::string path = LARES_SOURCE_DIR "/docs/api-reference.md";
  if (std::getenv("LARES_BLESS") != nullptr) std::ofstream(path) << api_reference();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), api_reference())
      << "run server_tests with LARES_BLESS=1 and look at the difference";
}

}  // namespace
}  // namespace lares::server
