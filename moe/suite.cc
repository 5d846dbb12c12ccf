#include "moe/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "emu/errors.h"
#include "emu/text_config.h"

namespace orrery::moe {

namespace {

const std::string kAlgorithm = "algorithm.";

// What a baseline of `row` runs: the row with the baseline's fields on top.
Row resolved_baseline(const Row& row, const Row& fields) {
  Row baseline = row;
  baseline.clear_baseline();
  baseline.clear_metric();
  baseline.clear_pick();
  baseline.clear_cases();
  if (fields.has_algorithm() && fields.algorithm() != row.algorithm()) {
    baseline.clear_settings();
    for (const std::string& setting : row.settings()) {
      if (!setting.starts_with(kAlgorithm)) baseline.add_settings(setting);
    }
  }
  baseline.MergeFrom(fields);
  return baseline;
}

void put_on_top(const Case& place, Row& row) {
  if (place.has_workload()) row.set_workload(place.workload());
  if (place.has_devices()) row.set_devices(place.devices());
  row.mutable_settings()->MergeFrom(place.settings());
}

class RowCheck {
 public:
  RowCheck(const Row& row, const std::string& path, const std::string& field)
      : row_(row), path_(path), field_(field) {}

  void figure() const {
    const bool latency = row_.metric() == Row::LATENCY;
    const std::string name = latency ? "published_us" : "published";
    if (latency ? row_.has_published() : row_.has_published_us()) {
      fail(latency ? "published" : "published_us", fmt::format("{}", given()),
           fmt::format("{} in a row of metric {}", name, Row::Metric_Name(row_.metric())));
    }
    const bool compared = row_.role() != Row::EXTRA;
    const double least = row_.metric() == Row::REDUCTION_PERCENT ? -1e3 : 0;
    if (compared && (!has_published(row_) || published(row_) <= least)) {
      fail(name, has_published(row_) ? fmt::format("{}", published(row_)) : "nothing",
           fmt::format("a {} in a row that is compared (role {})",
                       latency ? "latency above 0" : "figure", Row::Role_Name(row_.role())));
    }
    if (!compared && has_published(row_)) {
      fail("role", Row::Role_Name(row_.role()),
           "PREDICTED, CALIBRATES or CONTRADICTS in a row with " + name);
    }
    if (!row_.anomaly().empty() && row_.role() != Row::PREDICTED) {
      fail("anomaly", row_.anomaly(), "none in a row of role " + Row::Role_Name(row_.role()));
    }
    if (row_.metric() == Row::REDUCTION_PERCENT && has_published(row_) && published(row_) >= 100)
      fail(name, fmt::format("{}", published(row_)), "a reduction of less than 100 %");
    if (compared && row_.source().empty())
      fail("source", "nothing", "where the published figure stands");
  }

  void runs() const {
    if (row_.baseline().empty() != (row_.metric() == Row::LATENCY)) {
      fail("baseline", row_.baseline().empty() ? "nothing" : "a baseline",
           row_.baseline().empty() ? "the run to compare with" : "none in a row of metric LATENCY");
    }
    for (const Row& baseline : row_.baseline()) {
      if (is_more_than_a_run(baseline)) {
        fail("baseline", "more than a run",
             "no baseline, cases, metric, pick, tokens or figure of its own: those are the row's");
      }
    }
    const bool several = row_.tokens_size() > 1 || row_.cases_size() > 1;
    if (row_.has_pick() != several) {
      fail("pick", row_.has_pick() ? Row::Pick_Name(row_.pick()) : "nothing",
           row_.has_pick() ? "several cases or numbers of tokens to pick from"
                           : "SMALLEST or LARGEST of several cases or numbers of tokens");
    }
    if (row_.payload() != "full" && row_.payload() != "control")
      fail("payload", row_.payload(), "full or control");
  }

  [[noreturn]] void fail(const std::string& name, const std::string& value,
                         const std::string& expectation) const {
    throw emu::ConfigError(path_, field_ + "." + name, value, expectation);
  }

 private:
  static bool is_more_than_a_run(const Row& row) {
    return !row.baseline().empty() || !row.cases().empty() || row.has_metric() || row.has_pick() ||
           !row.tokens().empty() || has_published(row);
  }
  double given() const { return row_.has_published() ? row_.published() : row_.published_us(); }

  const Row& row_;
  const std::string& path_;
  const std::string& field_;
};

// A row that contradicts has another of its role that predicts the same and says otherwise.
void check_contradictions(const Suite& suite, const std::string& path) {
  for (int i = 0; i < suite.rows_size(); ++i) {
    const Row& row = suite.rows(i);
    if (row.role() != Row::CONTRADICTS) continue;
    const std::string run = prediction_of(row).SerializeAsString();
    const bool found = std::any_of(suite.rows().begin(), suite.rows().end(), [&](const Row& other) {
      return other.role() == Row::CONTRADICTS && published(other) != published(row) &&
             prediction_of(other).SerializeAsString() == run;
    });
    if (!found) {
      throw emu::ConfigError(path, fmt::format("rows.{}.role", i), "CONTRADICTS",
                             "another row of this role with the same run and another figure");
    }
  }
}

// What anybody could leave out at will would prove nothing.
void check_anomalies(const Suite& suite, const std::string& path) {
  int anomalies = 0;
  for (int i = 0; i < suite.rows_size(); ++i) {
    if (suite.rows(i).anomaly().empty() || 10 * ++anomalies <= suite.rows_size()) continue;
    throw emu::ConfigError(
        path, fmt::format("rows.{}.anomaly", i), suite.rows(i).anomaly(),
        fmt::format("at most one in ten rows declared so, of {}", suite.rows_size()));
  }
}

}  // namespace

bool has_published(const Row& row) {
  return row.metric() == Row::LATENCY ? row.has_published_us() : row.has_published();
}

double published(const Row& row) {
  return row.metric() == Row::LATENCY ? row.published_us() : row.published();
}

Row prediction_of(const Row& row) {
  Row out = row;
  std::vector<Row*> all = {&out};
  for (Row& baseline : *out.mutable_baseline()) all.push_back(&baseline);
  for (Row* each : all) {
    each->set_id("");
    each->clear_role();
    each->clear_published_us();
    each->clear_published();
    each->clear_source();
    each->clear_anomaly();
  }
  return out;
}

std::vector<Row> cases_of(const Row& row) {
  Row plain = row;
  plain.clear_cases();
  if (row.cases().empty()) return {plain};
  std::vector<Row> rows;
  for (const Case& place : row.cases()) {
    Row& each = rows.emplace_back(plain);
    put_on_top(place, each);
    for (Row& baseline : *each.mutable_baseline()) put_on_top(place, baseline);
  }
  return rows;
}

Suite load_suite(const std::string& path) {
  Suite suite;
  emu::load_text_file(path, suite);
  std::set<std::string> ids;
  for (int i = 0; i < suite.rows_size(); ++i) {
    Row row = suite.common();
    row.MergeFrom(suite.rows(i));
    RowCheck(row, path, fmt::format("rows.{}", i)).runs();
    const Row as_written = row;
    for (Row& baseline : *row.mutable_baseline())
      baseline = resolved_baseline(as_written, baseline);
    *suite.mutable_rows(i) = row;
  }
  suite.clear_common();
  emu::check_ranges(suite, path);
  if (suite.rows_size() == 0) throw emu::ConfigError(path, "rows", "nothing", "at least one row");
  for (int i = 0; i < suite.rows_size(); ++i) {
    const std::string field = fmt::format("rows.{}", i);
    RowCheck(suite.rows(i), path, field).figure();
    if (!ids.insert(suite.rows(i).id()).second) {
      throw emu::ConfigError(path, field + ".id", suite.rows(i).id(),
                             "an id that no other row has");
    }
  }
  check_contradictions(suite, path);
  check_anomalies(suite, path);
  return suite;
}

AssumedRanges load_ranges(const std::string& path) {
  AssumedRanges ranges;
  emu::load_text_file(path, ranges);
  emu::check_ranges(ranges, path);
  if (ranges.ranges().empty()) {
    throw emu::ConfigError(path, "ranges", "nothing", "at least one field with its values");
  }
  for (int i = 0; i < ranges.ranges_size(); ++i) {
    if (ranges.ranges(i).values().empty()) {
      throw emu::ConfigError(path, fmt::format("ranges.{}.values", i), "nothing",
                             "the ends of the range of " + ranges.ranges(i).field());
    }
  }
  return ranges;
}

}  // namespace orrery::moe
