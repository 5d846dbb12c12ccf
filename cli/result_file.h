// What `orrery run --json` and `orrery sweep` wrote, read back. Survives any bytes.
#pragma once

#include <string>
#include <vector>

#include "cli/sweep.pb.h"
#include "cli/sweep_order.h"
#include "moe/result.pb.h"

namespace orrery::cli {

/// One result, or the finished points of a sweep.
struct ResultFile {
  std::string name;  // as given
  bool is_sweep = false;
  moe::Result result;               // if it is no sweep
  std::vector<PointRecord> points;  // of a sweep, in its order
  SweepOrder order;                 // of a sweep
  std::vector<std::string> warnings;
};

/// Reads the result or the points.jsonl at `path`; a folder stands for the points.jsonl in it. A
/// sweep.json beside it gives the order of the values.
/// Throws ConfigError naming the file, the line of a sweep, and the field: not JSON, an unknown
/// field, a value of the wrong kind, an operation without a name, nothing in it. A last line that
/// an interrupted sweep left torn is a warning.
ResultFile load_result_file(const std::string& path);

/// The same for texts in memory; `sweep_json` may be empty.
ResultFile parse_result_file(const std::string& text, const std::string& name,
                             const std::string& sweep_json = "");

/// A point in words: "tokens=8 fabric.packet_bytes=512".
std::string point_name(const PointRecord& point);

}  // namespace orrery::cli
