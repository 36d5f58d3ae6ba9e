// What `lares top` knows, and how it is written: a screen of text, or JSON.
//
// Pure; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace lares::app {

// One stretch of the device's work.
struct TopStep {
  std::int64_t number = 0;
  double start = 0, end = 0, device = 0, tokens = 0;   // Seconds of the server's clock.
  std::vector<std::pair<std::string, double>> shares;  // Members, "" for others; seconds.
};

class TopScreen {
 public:
  static constexpr double kWindow = 60;    // Seconds of the strip.
  static constexpr double kRecently = 10;  // Seconds that "busy" is about.

  struct Size {
    std::size_t columns = 80, rows = 24;
    bool colours = false;
  };

  explicit TopScreen(std::string server) : server_(std::move(server)) {}

  // Answers of the server. Errors: Corrupt.
  Result<> take_me(std::string_view body);
  Result<> take_timeline(std::string_view body);
  Result<> take_queue(std::string_view body);
  Result<> take_memory(std::string_view body);
  Result<> take_models(std::string_view body);
  // GET /v1/timeline?since=
  [[nodiscard]] std::int64_t next() const { return next_; }

  // Lines of at most `columns`, at most `rows` of them; `trouble` is told in the first ones.
  [[nodiscard]] std::vector<std::string> lines(const Size& size, std::string_view clock,
                                               std::string_view trouble) const;
  [[nodiscard]] std::string to_json() const;

 private:
  struct Sums {
    double busy = 0, tokens = 0;
    std::vector<std::pair<std::string, double>> shares;  // The greatest first.
  };
  [[nodiscard]] Sums sums(double seconds) const;
  [[nodiscard]] std::string strip(std::size_t columns, bool colours) const;
  [[nodiscard]] std::string memory_line(std::size_t columns) const;
  [[nodiscard]] std::string models_line() const;
  void add_jobs(std::vector<std::string>& out, const Size& size) const;
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> counts() const;  // Running, waiting.

  std::string server_, member_;
  double now_ = 0;
  std::int64_t next_ = 0;
  std::deque<TopStep> steps_;
  json::Value queue_, memory_, models_;
};

// Cut to so many columns of a terminal; what counts are code points, escapes apart.
std::string cut_to(std::string_view text, std::size_t columns);

}  // namespace lares::app
