#include "moe/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "emu/errors.h"
#include "moe/gate.h"
#include "moe/workload.h"
#include "tests/moe/test_workload.h"

namespace orrery::moe {
namespace {

Workload traced(std::uint32_t layer = 0) {
  Workload workload = make_workload(8, 2, 4);
  workload.mutable_gate()->set_kind(Gate::TRACE);
  workload.mutable_gate()->set_trace_file("t.jsonl");
  workload.mutable_gate()->set_trace_layer(layer);
  return workload;
}

Trace read(const std::string& text, const Workload& workload = traced()) {
  std::istringstream in(text);
  return Trace::read(in, "t.jsonl", workload);
}

std::string route_line(int a, int b, int layer = 0) {
  return "{\"type\":\"route\",\"req_id\":\"r\",\"token_idx\":0,\"layer\":" + std::to_string(layer) +
         ",\"topk_ids\":[" + std::to_string(a) + "," + std::to_string(b) +
         "],\"topk_weights\":[0.75,0.25]}\n";
}

std::vector<std::int32_t> ids_of(const Trace& trace) {
  std::vector<std::int32_t> ids;
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    ids.insert(ids.end(), trace.ids(token).begin(), trace.ids(token).end());
  }
  return ids;
}

TEST(Trace, ReadsTheChosenLayerInOrder) {
  const std::string text = "{\"model\":\"m\"}\n\n" + route_line(0, 1) + route_line(2, 3, 1) +
                           "  \t\r\n{\"type\":\"other\",\"x\":[1,{}]}\n" + route_line(4, -1) +
                           route_line(6, 7, 1);
  EXPECT_EQ(ids_of(read(text)), (std::vector<std::int32_t>{0, 1, 4, -1}));
  EXPECT_EQ(ids_of(read(text, traced(1))), (std::vector<std::int32_t>{2, 3, 6, 7}));
  EXPECT_EQ(read(text).weights(0)[0], 0.75f);
}

TEST(Trace, TakesWindowsLineEndsAndAMissingLastOne) {
  const std::string line = route_line(5, 6);
  EXPECT_EQ(ids_of(read(line.substr(0, line.size() - 1))), (std::vector<std::int32_t>{5, 6}));
  EXPECT_EQ(ids_of(read(line.substr(0, line.size() - 1) + "\r\n")),
            (std::vector<std::int32_t>{5, 6}));
}

TEST(Trace, MissingWeightsAreUniform) {
  const Trace trace = read("{\"type\":\"route\",\"layer\":0,\"topk_ids\":[1,2]}");
  EXPECT_EQ(trace.weights(0)[0], 0.5f);
  EXPECT_EQ(trace.weights(0)[1], 0.5f);
}

TEST(Trace, ALineMayHaveOneMebibyteAndNoMore) {
  std::string line = route_line(1, 2);
  line.pop_back();
  line.resize(std::size_t{1} << 20, ' ');
  EXPECT_EQ(read(line + "\n" + route_line(3, 4)).tokens(), 2u);
  EXPECT_EQ(read(line).tokens(), 1u);
  EXPECT_THROW(read(line + " \n"), emu::ConfigError);
  EXPECT_THROW(read(line + " "), emu::ConfigError);
}

struct Malformed {
  std::string line;
  std::string field;
};

TEST(Trace, MalformedLinesAreRefusedWithTheirPlace) {
  const std::string head = "{\"type\":\"route\",\"layer\":0,";
  const std::vector<Malformed> cases = {
      {"not json", ""},
      {"{\"type\":\"route\"", ""},
      {"[1,2,3]", ""},
      {"17", ""},
      {"null", ""},
      {"{} {}", ""},
      {std::string("\x00\xff\xfe\x7f\x80garbage", 12), ""},
      {std::string(2 << 20, 'x'), ""},
      {std::string(100000, '['), ""},
      {"{\"layer\":0,\"topk_ids\":[1,2]}", "type"},
      {"{\"type\":7,\"layer\":0,\"topk_ids\":[1,2]}", "type"},
      {"{\"type\":\"route\",\"topk_ids\":[1,2]}", "layer"},
      {"{\"type\":\"route\",\"layer\":-1,\"topk_ids\":[1,2]}", "layer"},
      {"{\"type\":\"route\",\"layer\":0.5,\"topk_ids\":[1,2]}", "layer"},
      {"{\"type\":\"route\",\"layer\":\"0\",\"topk_ids\":[1,2]}", "layer"},
      {"{\"type\":\"route\",\"layer\":99999999999999999999,\"topk_ids\":[1,2]}", "layer"},
      {"{\"type\":\"route\",\"layer\":0}", "topk_ids"},
      {head + "\"topk_ids\":[1]}", "topk_ids"},
      {head + "\"topk_ids\":[1,2,3]}", "topk_ids"},
      {head + "\"topk_ids\":[]}", "topk_ids"},
      {head + "\"topk_ids\":3}", "topk_ids"},
      {head + "\"topk_ids\":\"12\"}", "topk_ids"},
      {head + "\"topk_ids\":[1,8]}", "topk_ids[1]"},
      {head + "\"topk_ids\":[-2,1]}", "topk_ids[0]"},
      {head + "\"topk_ids\":[1,4294967297]}", "topk_ids[1]"},
      {head + "\"topk_ids\":[1,18446744073709551615]}", "topk_ids[1]"},
      {head + "\"topk_ids\":[1,2.0]}", "topk_ids[1]"},
      {head + "\"topk_ids\":[1,null]}", "topk_ids[1]"},
      {head + "\"topk_ids\":[1,\"2\"]}", "topk_ids[1]"},
      {head + "\"topk_ids\":[3,3]}", "topk_ids[1]"},
      {head + "\"topk_ids\":[1,2],\"topk_weights\":[1]}", "topk_weights"},
      {head + "\"topk_ids\":[1,2],\"topk_weights\":{}}", "topk_weights"},
      {head + "\"topk_ids\":[1,2],\"topk_weights\":[0.5,NaN]}", ""},
      {head + "\"topk_ids\":[1,2],\"topk_weights\":[0.5,null]}", "topk_weights[1]"},
      {head + "\"topk_ids\":[1,2],\"topk_weights\":[0.5,1e39]}", "topk_weights[1]"},
      {head + "\"topk_ids\":[1,2],\"topk_weights\":[0.5,1e400]}", ""},
      {head + "\"topk_ids\":[1,2],\"topk_weights\":[-0.5,1]}", "topk_weights[0]"},
      {head + "\"topk_ids\":[1,2],\"token_idx\":-4}", "token_idx"},
      {head + "\"topk_ids\":[1,2],\"req_id\":[]}", "req_id"},
  };
  for (const Malformed& malformed : cases) {
    try {
      read(route_line(0, 1) + "\n" + malformed.line + "\n" + route_line(2, 3));
      ADD_FAILURE() << "accepted: " << malformed.line.substr(0, 100);
    } catch (const emu::ConfigError& error) {
      std::string start = "t.jsonl:3: ";
      if (!malformed.field.empty()) start += malformed.field + ": ";
      EXPECT_EQ(std::string(error.what()).rfind(start + "got '", 0), 0u) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      EXPECT_LT(std::string(error.what()).size(), 600u);
    }
  }
}

TEST(Trace, ALayerThatIsNotThereNamesThoseThatAre) {
  try {
    read(route_line(1, 2, 3) + route_line(1, 2, 5), traced(4));
    FAIL();
  } catch (const emu::ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "t.jsonl: layer: got 'routes of layer 3 5', expected at least one route of layer 4 "
        "(gate.trace_layer)");
  }
  EXPECT_THROW(read(""), emu::ConfigError);
  EXPECT_THROW(read("{\"type\":\"meta\"}\n"), emu::ConfigError);
}

TEST(Trace, DuplicatesWhereAllowed) {
  Workload workload = traced();
  workload.mutable_gate()->set_allow_duplicates(true);
  EXPECT_EQ(ids_of(read(route_line(3, 3), workload)), (std::vector<std::int32_t>{3, 3}));
  EXPECT_EQ(ids_of(read(route_line(-1, -1))), (std::vector<std::int32_t>{-1, -1}));
}

TEST(Trace, IsDealtInOrderAndContinuesAndStartsOver) {
  const Trace trace = read(route_line(0, 1) + route_line(1, 2) + route_line(2, 3) +
                           route_line(3, 4) + route_line(4, 5));
  Workload workload = traced();
  workload.add_tokens_per_device(2);
  workload.add_tokens_per_device(0);
  workload.add_tokens_per_device(1);
  std::vector<std::int32_t> first;
  for (std::uint32_t iteration = 0; iteration < 4; ++iteration) {
    const RoutingTable table = route(workload, 3, 1, iteration, &trace);
    for (const auto& [device, token] : {std::pair{0u, 0u}, {0u, 1u}, {2u, 0u}}) {
      first.push_back(table.ids(device, token)[0]);
    }
  }
  EXPECT_EQ(first, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}));
  EXPECT_FALSE(trace.repeats(5));
  EXPECT_TRUE(trace.repeats(6));
}

TEST(Trace, OfAnotherShapeIsRefused) {
  const Trace trace = read(route_line(0, 1));
  Workload workload = traced();
  workload.set_experts(16);
  EXPECT_THROW(route(workload, 1, 1, 0, &trace), emu::ConfigError);
}

TEST(Trace, SampleWorkloadRoutes) {
  const Workload workload = load_workload("workloads/sample-trace.textproto");
  const Trace trace = Trace::load(workload);
  EXPECT_EQ(trace.tokens(), 10u);
  const RoutingTable table = route(workload, 2, 1, 0, &trace);
  EXPECT_EQ(table.total_entries(), 15u);  // one of 16 is masked
}

TEST(Trace, AFileThatCannotBeReadIsRefused) {
  Workload workload = traced();
  for (const char* path : {"workloads/none.jsonl", "workloads", ""}) {
    workload.mutable_gate()->set_trace_file(path);
    EXPECT_THROW(Trace::load(workload), emu::ConfigError) << path;
  }
}

}  // namespace
}  // namespace orrery::moe
