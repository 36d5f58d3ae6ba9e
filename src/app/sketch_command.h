// `lares sketch`: what a sketch means and costs, and its canonical form.
#pragma once

#include <span>
#include <string>

#include "core/result.h"
#include "sketch/catalogue.h"

namespace lares::app {

// Arguments after the verb; see kHelp in the source. `executable` is our own binary, from which
// model files are opened in children. Returns the exit status: 0, 1 (the sketch is faulty), 2.
int run_sketch_command(std::span<const std::string> arguments, const std::string& executable);

// The models of a folder, as the planner knows them; what cannot be read is left out and said in
// `left_out`. A folder that is not there has none.
sketch::Catalogue folder_catalogue(const std::string& folder, const std::string& executable,
                                   std::string& left_out);

// What `check` and `fmt` print for a sketch, as text or in JSON; whether it is sound.
struct Answer {
  std::string text;
  bool sound = false;
};
Answer check_sketch(const std::string& source, const sketch::Catalogue& catalogue, bool json);
Answer format_sketch(const std::string& source, bool json);

}  // namespace lares::app
