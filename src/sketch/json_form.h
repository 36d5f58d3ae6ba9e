// The canonical JSON of a sketch, both ways.
//
//   {"sketch":1,"lines":[LINE...]}
//   LINE   {"comment":" a draft"} | {"use":"sd15","at":[512,512],"dtype":"f16"} |
//          {"use":"sd15","fit":512,"name":"photo"} | {"in":"idea","type":"Text","initial":"a fox"}
//          |
//          {"bind":"c","type":"Cond","flow":FLOW} | {"out":FLOW,"medium":"webp","args":[ARG...]} |
//          {"keep":"c","for":"7d"} | {"want":["draft",{"under":"10s"}]}
//          and in each "gap":true (an empty line before it), "note":" a comment behind it"
//   FLOW   [VALUE or STAGE, STAGE...]
//   STAGE  {"stage":"sample","args":[ARG...]}
//   ARG    VALUE | {"key":"seed","value":VALUE}
//   VALUE  "a text" | 7.5 | {"name":"c"} | {"unit":"2x"} | {"size":[768,512]} | {"lat":"3f9c"} |
//          [VALUE...] | {"flow":FLOW}
//   Members that say nothing (no arguments, no gap) are left out. Types are as in the text form.
#pragma once

#include <string>
#include <string_view>

#include "sketch/parser.h"

namespace lares::sketch {

// Compact, members in the order above.
std::string to_json(const Sketch& sketch);

// What a sketch cannot say in text is refused, so that print(read_json(t)) parses to the same tree.
// Places in the tree are those of its text form, places of problems those of the JSON.
Parsed read_json(std::string_view text, const Limits& limits = {});

}  // namespace lares::sketch
