// The dashboard's files, as they lie in src/web, within the binary: made by tools/embed_web.py when
// it is built.
//
// Constant; any thread.
#pragma once

#include <span>
#include <string_view>

namespace lares::server {

struct WebFile {
  std::string_view path;   // Within src/web: "app.js", "vendor/uPlot.min.js".
  std::string_view type;   // "text/javascript; charset=utf-8"
  std::string_view etag;   // Quoted; another one for other bytes.
  std::string_view bytes;  // As it is.
  std::string_view gzip;   // Compressed; "" if that makes it no smaller.
};

// By path.
std::span<const WebFile> web_files();

}  // namespace lares::server
