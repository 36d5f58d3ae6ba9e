// Keeps the scheduler's cost tables over restarts: a text file in the data folder, one line a
// table.
//
// Written by a thread of its own, whole, to a temporary file that is then renamed, so that a crash
// leaves the old one. A table that is lost costs a second of measuring.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace lares::server {

class CostBook {
 public:
  // Reads what is there; nothing, if it cannot be read.
  explicit CostBook(const std::string& folder);
  CostBook(const CostBook&) = delete;
  CostBook& operator=(const CostBook&) = delete;
  ~CostBook();  // Writes what is left.

  [[nodiscard]] std::map<std::string, std::string> tables();  // By key; any thread.
  void save(std::string key, std::string table);              // Any thread; does not block.

 private:
  void run();
  void write(const std::map<std::string, std::string>& tables) const;

  std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> tables_;
  bool dirty_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lares::server
