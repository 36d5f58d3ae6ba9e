#include "server/cost_book.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/log.h"

namespace lares::server {

CostBook::CostBook(const std::string& folder)
    : path_((std::filesystem::path(folder) / "step-costs.txt").string()) {
  std::ifstream in(path_);
  std::string line;
  while (std::getline(in, line)) {
    const std::size_t blank = line.find(' ');
    if (blank != std::string::npos) tables_[line.substr(0, blank)] = line.substr(blank + 1);
  }
  thread_ = std::thread([this] { run(); });
}

CostBook::~CostBook() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::map<std::string, std::string> CostBook::tables() {
  const std::lock_guard lock(mutex_);
  return tables_;
}

void CostBook::save(std::string key, std::string table) {
  {
    const std::lock_guard lock(mutex_);
    tables_[std::move(key)] = std::move(table);
    dirty_ = true;
  }
  changed_.notify_one();
}

void CostBook::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return dirty_ || stopping_; });
    if (!dirty_) return;
    dirty_ = false;
    const auto tables = tables_;
    lock.unlock();
    write(tables);
    lock.lock();
  }
}

void CostBook::write(const std::map<std::string, std::string>& tables) const {
  const std::string fresh = path_ + ".new";
  {
    std::ofstream out(fresh, std::ios::trunc);
    for (const auto& [key, table] : tables) out << key << ' ' << table << '\n';
    out.flush();
    if (!out) return log_warn("how long steps take cannot be kept", {{"file", fresh}});
  }
  if (std::rename(fresh.c_str(), path_.c_str()) != 0)
    log_warn("how long steps take cannot be kept", {{"file", path_}});
}

}  // namespace lares::server
