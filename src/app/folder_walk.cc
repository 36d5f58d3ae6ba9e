#include "app/folder_walk.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

namespace lares::app {

namespace fs = std::filesystem;

std::error_code walk_folder(const fs::path& folder, int depth,
                            const std::function<void(const fs::path& file, int depth)>& visit) {
  struct Place {
    fs::path path;
    int depth;
  };
  std::set<fs::path> entered;
  std::vector<Place> places{{folder, 0}};
  std::error_code first;
  while (!places.empty()) {
    const Place place = std::move(places.back());
    places.pop_back();
    std::error_code error;
    const fs::path real = fs::canonical(place.path, error);
    if (!error && !entered.insert(real).second) continue;
    std::vector<Place> below;
    fs::directory_iterator it(place.path, error);
    for (; !error && it != fs::directory_iterator(); it.increment(error)) {
      std::error_code dangling;
      if (!it->is_directory(dangling)) {
        visit(it->path(), place.depth);
      } else if (place.depth < depth) {
        below.push_back({it->path(), place.depth + 1});
      }
    }
    // Of two links to one folder the first by name counts.
    std::ranges::sort(below, std::greater<>{}, &Place::path);
    std::ranges::move(below, std::back_inserter(places));
    if (place.depth == 0) first = error;
  }
  return first;
}

}  // namespace lares::app
