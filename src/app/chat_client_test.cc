#include "app/chat_client.h"

#include <gtest/gtest.h>

namespace lares::app {
namespace {

TEST(ServerAddress, AsPeopleWriteIt) {
  for (const char* text : {"http://127.0.0.1:9000", "127.0.0.1:9000", "http://127.0.0.1:9000/"}) {
    const auto address = parse_server_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->host, "127.0.0.1");
    EXPECT_EQ(address->port, 9000);
  }
  EXPECT_EQ(parse_server_address("http://[::1]:8080")->host, "::1");
  for (const char* text :
       {"", "host", "host:0", "host:70000", ":80", "http://a/b:1", "https://x:1"}) {
    EXPECT_FALSE(parse_server_address(text)) << text;
  }
}

// Whatever the pieces in which an answer comes.
TEST(BodyReader, PutsChunksTogether) {
  const std::string answer =
      "HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
  for (std::size_t size = 1; size < answer.size(); ++size) {
    BodyReader reader;
    std::string body;
    for (std::size_t at = 0; at < answer.size(); at += size) {
      ASSERT_TRUE(reader.add(std::string_view(answer).substr(at, size)));
      body += reader.take();
    }
    EXPECT_EQ(body, "hello world") << size;
    EXPECT_EQ(reader.status(), 200);
    EXPECT_TRUE(reader.complete());
  }
}

TEST(BodyReader, LengthsAndOpenEnds) {
  BodyReader reader;
  ASSERT_TRUE(reader.add("HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nab"));
  EXPECT_FALSE(reader.complete());
  ASSERT_TRUE(reader.add("cd"));
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.take(), "abcd");
  BodyReader open;
  ASSERT_TRUE(open.add("HTTP/1.0 200 OK\r\n\r\nab"));
  EXPECT_FALSE(open.complete());
  EXPECT_EQ(open.take(), "ab");
  EXPECT_FALSE(BodyReader().add("SSH-2.0-OpenSSH_9.2\r\n\r\n"));
  EXPECT_FALSE(BodyReader().add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"));
}

TEST(ChatClient, NobodyThere) {
  const ChatClient client({"127.0.0.1", 1}, "", "", -1);
  const auto answer = client.ask("{}", [](Said, std::string_view) {});
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("lares serve"), std::string::npos);
}

}  // namespace
}  // namespace lares::app
