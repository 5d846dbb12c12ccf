#include "moe/suite.h"

#include <fmt/format.h>

#include <set>

#include "emu/errors.h"
#include "emu/text_config.h"

namespace orrery::moe {

namespace {

void check_figure(const Row& row, const std::string& path, const std::string& field) {
  const bool compared = row.role() != Row::EXTRA;
  const double figure = row.published_us();
  if (compared && figure <= 0) {
    throw emu::ConfigError(
        path, field + ".published_us",
        row.has_published_us() ? fmt::format("{}", figure) : "nothing",
        "a latency above 0 in a row that is compared (role " + Row::Role_Name(row.role()) + ")");
  }
  if (!compared && row.has_published_us()) {
    throw emu::ConfigError(path, field + ".role", Row::Role_Name(row.role()),
                           "PREDICTED or CALIBRATES in a row with published_us");
  }
  if (compared && row.source().empty()) {
    throw emu::ConfigError(path, field + ".source", "nothing", "where the published figure stands");
  }
}

}  // namespace

Suite load_suite(const std::string& path) {
  Suite suite;
  emu::load_text_file(path, suite);
  std::set<std::string> ids;
  for (int i = 0; i < suite.rows_size(); ++i) {
    Row row = suite.common();
    row.MergeFrom(suite.rows(i));
    *suite.mutable_rows(i) = row;
  }
  suite.clear_common();
  emu::check_ranges(suite, path);
  if (suite.rows_size() == 0) throw emu::ConfigError(path, "rows", "nothing", "at least one row");
  for (int i = 0; i < suite.rows_size(); ++i) {
    const std::string field = fmt::format("rows.{}", i);
    check_figure(suite.rows(i), path, field);
    if (!ids.insert(suite.rows(i).id()).second) {
      throw emu::ConfigError(path, field + ".id", suite.rows(i).id(),
                             "an id that no other row has");
    }
  }
  return suite;
}

}  // namespace orrery::moe
