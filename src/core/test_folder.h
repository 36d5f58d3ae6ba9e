// For tests: a folder of this process's own, so that tests may run side by side; removed at its
// end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lares {

// `name` inside the folder.
inline std::string test_file(const std::string& name) {
  struct Folder {
    std::string path = "/tmp/lares_test_XXXXXX";
    Folder() {
      if (mkdtemp(path.data()) == nullptr) std::abort();
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path + "/" + name;
}

}  // namespace lares
