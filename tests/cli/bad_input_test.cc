// Design section 11: bad input of any kind is one line that names the file or flag, the field, the
// value and what was expected; exit code 2, before any work, with one message however many
// processes there are.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;

const std::string kTiny = "run --topology tiny --algorithm cann-bsp ";
const std::string kSweep = "sweep --topology tiny --algorithm cann-bsp --out DIR/sweep ";
const std::string kFull = "run --topology cm384 --workload deepseek-r1 --algorithm cann-bsp ";

const std::string kTraced = kTiny + "--trace DIR/trace.json ";

struct Case {
  const char* name;
  std::string arguments;           // DIR stands for the folder of the files below
  std::vector<std::string> named;  // all of this stands in the message
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.arguments; }

// --- Files that are wrong in one way each ---

const char* kFabric = "fabric { star { devices: 4 link { latency_ns: 700 gb_per_s: 50 } } }\n";
const char* kModel = "hidden: 64 expert_intermediate: 32 experts: 8 top_k: 2 tokens: 4\n";

void write_trace(const std::string& name, const std::string& lines) {
  scratch_file(name + ".jsonl", lines);
  scratch_file(name + ".textproto",
               std::string(kModel) + "gate { kind: TRACE trace_file: \"" + name + ".jsonl\" }\n");
}

void write_files() {
  const std::string device = "device { cores: 4 }\n";
  scratch_file("truncated.textproto", "fabric { star { devices: 4 link { latency_ns: 700");
  scratch_file("garbage.textproto", std::string("\x7f"
                                                "ELF\x02\x01\x01\0\0\xff\xfe\x80 \n\0\x03",
                                                17));
  scratch_file("empty.textproto", "");
  scratch_file("unknown-field.textproto", std::string(kFabric) + device + "fabrik { }\n");
  scratch_file("bad-enum.textproto",
               "fabric { order_scope: SOMETIMES star { devices: 4 } }\n" + device);
  scratch_file("bad-range.textproto",
               "fabric { star { devices: 4 link { latency_ns: -7 gb_per_s: 50 } } }\n" + device);
  scratch_file("no-generator.textproto", "fabric { packet_bytes: 4096 }\n" + device);
  scratch_file("no-link.textproto", "fabric { star { devices: 4 } }\n" + device);
  scratch_file("two-generators.textproto",
               "fabric { star { devices: 4 } full_mesh { dimensions: 4 } }\n" + device);
  scratch_file("two-links.textproto",
               "fabric { torus { dimensions: [4, 4, 4] links { latency_ns: 9 gb_per_s: 9 } links { "
               "latency_ns: 9 gb_per_s: 9 } } }\n" +
                   device);
  scratch_file("no-device.textproto", kFabric);
  scratch_file("not-a-number.textproto", "fabric { star { devices: many } }\n" + device);
  scratch_file("no-experts.textproto", "hidden: 64 expert_intermediate: 32 top_k: 2\n");
  scratch_file("k-above-experts.textproto",
               "hidden: 64 expert_intermediate: 32 experts: 8 top_k: 9\n");
  scratch_file("groups.textproto", std::string(kModel) + "expert_groups: 3 top_groups: 1\n");
  scratch_file("three-counts.textproto", std::string(kModel) + "tokens_per_device: [1, 2, 3]\n");
  scratch_file("bounded.textproto", std::string(kModel) + "max_tokens: 16\n");
  scratch_file("no-trace.textproto", std::string(kModel) + "gate { kind: TRACE }\n");
  scratch_file("lost-trace.textproto",
               std::string(kModel) + "gate { kind: TRACE trace_file: \"none\" }\n");
  scratch_file("folder-trace.textproto",
               std::string(kModel) + "gate { kind: TRACE trace_file: \".\" }\n");

  const std::string good = R"({"type": "route", "layer": 0, "topk_ids": [0, 1]})"
                           "\n";
  write_trace("not-json", good + "{\"type\": \"route\", \"layer\": 0, \"topk_ids\": [0,\n");
  write_trace("an-array", good + "[1, 2]\n");
  write_trace("no-layer", good + R"({"type": "route", "topk_ids": [0, 1]})"
                                 "\n");
  write_trace("no-ids", good + R"({"type": "route", "layer": 0})"
                               "\n");
  write_trace("expert-8", good + R"({"type": "route", "layer": 0, "topk_ids": [0, 8]})"
                                 "\n");
  write_trace("expert-text", good + R"({"type": "route", "layer": 0, "topk_ids": [0, "1"]})"
                                    "\n");
  write_trace("expert-minus-2", good + R"({"type": "route", "layer": 0, "topk_ids": [0, -2]})"
                                       "\n");
  write_trace("three-ids", good + R"({"type": "route", "layer": 0, "topk_ids": [0, 1, 2]})"
                                  "\n");
  write_trace("twice", good + R"({"type": "route", "layer": 0, "topk_ids": [3, 3]})"
                              "\n");
  write_trace("weight",
              good + R"({"type": "route", "layer": 0, "topk_ids": [0, 1], "topk_weights": [1, -1]})"
                     "\n");
  write_trace("other-layer", R"({"type": "route", "layer": 7, "topk_ids": [0, 1]})"
                             "\n");
  write_trace("binary", std::string("\0\x01\xff\xfe\n", 5));

  scratch_file("field.sweep.textproto", "topologie: \"tiny\"\n");
  scratch_file("values.sweep.textproto", "vary { key: \"tokens\" values: \"1:\" }\n");
  scratch_file("key.sweep.textproto", "vary { values: \"1\" }\n");
  const std::string put = R"("digest": "a", "output_digest": "b", "operations": [{"name": "put"}])";
  scratch_file("good.json", "{" + put + "}");
  scratch_file("cut.json", "{\n" + put + ",\n");
  scratch_file("unknown.json", "{" + put + ", \"device\": 4}");
  scratch_file("negative.json", "{\"devices\": -4}");
  scratch_file("nameless.json",
               R"({"digest": "a", "output_digest": "b", "operations": [{"latency_us": {}}]})");
  scratch_file("nothing.json", "{}");
  const std::string point = "{\"key\": \"k\", \"outcome\": \"ok\", \"result\": {" + put + "}}\n";
  scratch_file("good.jsonl", point);
  scratch_file("torn.jsonl", point + "{\"key\": \n" + point);
  scratch_file("outcome.jsonl", point + "{\"key\": \"l\", \"outcome\": \"fine\"}\n");

  const std::string suite = "timed: \"t\" byte_formula: \"b\"\n";
  const std::string row = "id: \"r\" algorithm: \"p2p\" devices: 2 operation: \"put\"";
  scratch_file("no-rows.suite.textproto", suite);
  scratch_file("no-figure.suite.textproto", suite + "rows { " + row + " topology: \"tiny\" }\n");
  const std::string extra = "rows { " + row + " topology: \"tiny\" role: EXTRA ";
  scratch_file("twice.suite.textproto", suite + extra + "}\n" + extra + "}\n");
  scratch_file("extra-figure.suite.textproto", suite + extra + "published_us: 5 source: \"s\" }\n");
  scratch_file("no-source.suite.textproto",
               suite + "rows { " + row + " topology: \"tiny\" published_us: 5 }\n");
  scratch_file("lost-topology.suite.textproto",
               suite + "rows { " + row + " topology: \"tinny\" role: EXTRA }\n");
}

std::vector<Case> cases() {
  std::vector<Case> list = {
      // Commands and flags
      {"NoCommand",
       "",
       {"command line", "nothing", "run, sweep, compare, validate, topo, litmus, list"}},
      {"UnknownCommand", "rum", {"command line", "'rum'", "did you mean 'run'"}},
      {"NoTopology", "run --algorithm p2p", {"--topology", "nothing", "orrery list topologies"}},
      {"NoAlgorithm", "run --topology tiny", {"--algorithm", "nothing", "orrery list algorithms"}},
      {"UnknownFlag",
       kTiny + "--tokenz 5",
       {"orrery run", "'--tokenz'", "did you mean '--tokens'"}},
      {"UnknownShortFlag", kTiny + "-x", {"orrery run", "'-x'", "orrery run --help"}},
      {"ExtraWord", kTiny + "fast", {"orrery run", "'fast'"}},
      {"FlagTwice", kTiny + "--tokens 3 --tokens 4", {"--tokens", "only once"}},
      {"FlagWithoutValue", kTiny + "--tokens", {"--tokens", "nothing"}},
      {"SwitchWithValue", kTiny + "--align=maybe", {"--align", "maybe"}},
      {"TwoAlignments",
       kTiny + "--align --align-iterations",
       {"--align-iterations", "--align", "one of them"}},
      // Names
      {"UnknownTopology",
       "run --topology tine --algorithm p2p",
       {"--topology", "'tine'", "did you mean 'tiny'"}},
      {"UnknownWorkload",
       kTiny + "--workload deepseek-r2",
       {"--workload", "'deepseek-r2'", "did you mean"}},
      {"UnknownAlgorithm",
       "run --topology tiny --algorithm cann-bps",
       {"--algorithm", "'cann-bps'", "did you mean 'cann-bsp'"}},
      {"EmptyTopology", "run --topology '' --algorithm p2p", {"--topology", "''", "tiny"}},
      {"UnknownOperation",
       kTiny + "--operation dispath",
       {"--operation", "'dispath'", "dispatch, experts, combine", "did you mean 'dispatch'"}},
      // Numbers
      {"TokensNegative", kTiny + "--tokens -1", {"--tokens", "'-1'", "0 to 1048576"}},
      {"TokensText", kTiny + "--tokens many", {"--tokens", "'many'", "whole number"}},
      {"TokensFraction", kTiny + "--tokens 1.5", {"--tokens", "'1.5'", "whole number"}},
      {"TokensHuge",
       kTiny + "--tokens 99999999999999999999",
       {"--tokens", "'99999999999999999999'"}},
      {"TokensEmpty", kTiny + "--tokens ''", {"--tokens", "''", "whole number"}},
      {"TokensTwoWays",
       kTiny + "--tokens 3 --set workload.tokens=4",
       {"--set", "workload.tokens", "--tokens 3"}},
      {"DevicesZero", kTiny + "--devices 0", {"--devices", "'0'", "from 1"}},
      {"DevicesNegative", kTiny + "--devices -3", {"--devices", "'-3'", "from 1"}},
      {"DevicesTooMany", kTiny + "--devices 5", {"--devices", "'5'", "at most the 4 devices"}},
      {"DevicesText", kTiny + "--devices 4x", {"--devices", "'4x'", "whole number"}},
      {"IterationsZero", kTiny + "--iterations 0", {"--iterations", "'0'", "from 1"}},
      {"IterationsHuge", kTiny + "--iterations 1000001", {"--iterations", "1000000"}},
      {"SeedNegative", kTiny + "--seed -1", {"--seed", "'-1'", "from 0"}},
      {"SeedHuge", kTiny + "--seed 9007199254740992", {"--seed", "9007199254740991"}},
      {"SeedHexadecimal", kTiny + "--seed 0x10", {"--seed", "'0x10'"}},
      {"ThreadsZero", kTiny + "--threads 0", {"--threads", "'0'", "from 1"}},
      {"ThreadsHuge", kTiny + "--threads 5000", {"--threads", "'5000'", "1024"}},
      {"LimitZero", kTiny + "--max-virtual-ms 0", {"--max-virtual-ms", "'0'", "above 0"}},
      {"LimitNegative", kTiny + "--max-virtual-ms -2.5", {"--max-virtual-ms", "'-2.5'", "above 0"}},
      {"LimitNan", kTiny + "--max-virtual-ms nan", {"--max-virtual-ms", "'nan'", "above 0"}},
      {"LimitInfinite", kTiny + "--max-virtual-ms inf", {"--max-virtual-ms", "'inf'", "above 0"}},
      // Transports
      {"TransportUnknown",
       kTiny + "--transport ucp",
       {"--transport", "'ucp'", "did you mean 'ucx'"}},
      {"TransportMpiAlone", kTiny + "--transport mpi", {"--transport", "'mpi'", "mpirun"}},
      // Placements
      {"PlacementUnknown",
       kTiny + "--placement spred",
       {"--placement", "'spred'", "packed, spread"}},
      {"PlacementEmpty", kTiny + "--placement ''", {"--placement", "''", "packed, spread"}},
      {"PlacementOpenRange", kTiny + "--placement 0-", {"--placement", "'0-'"}},
      {"PlacementBackwards", kTiny + "--placement 2-0", {"--placement", "'2-0'", "upwards"}},
      {"PlacementTwice", kTiny + "--placement 0,1,1,2", {"--placement", "1 twice"}},
      {"PlacementNoSuchPort", kTiny + "--placement 0-2,9", {"--placement", "'9'", "0 to 3"}},
      {"PlacementTooFew",
       kTiny + "--placement 0-2",
       {"--placement", "3 device ports", "expected 4"}},
      {"PlacementNegative", kTiny + "--placement -1", {"--placement", "'-1'"}},
      // --set
      {"SetNoEquals",
       kTiny + "--set fabric.packet_bytes",
       {"--set", "'fabric.packet_bytes'", "path.to.field=value"}},
      {"SetNoField", kTiny + "--set =4", {"--set", "'=4'", "path.to.field=value"}},
      {"SetUnknownRoot",
       kTiny + "--set fabrik.packet_bytes=4",
       {"--set", "fabrik.packet_bytes", "did you mean 'fabric'"}},
      {"SetRootAlone", kTiny + "--set device=4", {"--set", "device", "'4'"}},
      {"SetUnknownField",
       kTiny + "--set fabric.packet_byte=64",
       {"--set", "fabric.packet_byte", "did you mean 'packet_bytes'"}},
      {"SetOutOfRange",
       kTiny + "--set fabric.packet_bytes=8",
       {"--set", "fabric.packet_bytes", "'8'", "16 to 65536"}},
      {"SetText",
       kTiny + "--set device.cores=few",
       {"--set", "device.cores", "'few'", "1 to 1024"}},
      {"SetEnum",
       kTiny + "--set fabric.order_scope=SOMETIMES",
       {"--set", "fabric.order_scope", "'SOMETIMES'", "DEVICE_PAIR"}},
      {"SetOtherGenerator",
       kTiny + "--set fabric.star.devices=8",
       {"--set", "fabric.star.devices", "clos"}},
      {"SetMessage", kTiny + "--set fabric.clos=8", {"--set", "fabric.clos", "'8'"}},
      {"SetNan", kTiny + "--set device.launch_ns=nan", {"--set", "device.launch_ns", "'nan'"}},
      {"SetBlocksPerPacket",
       kTiny + "--set fabric.packet_bytes=4000",
       {"packet_bytes", "'4000'", "multiple"}},
      {"FailedPlane",
       kTiny + "--set fabric.failed_planes=0,2",
       {"fabric.failed_planes", "'2'", "planes from 0 to 1"}},
      {"FailedPlaneText",
       kTiny + "--set fabric.failed_planes=0,",
       {"--set", "fabric.failed_planes", "''", "an integer from 0 to 255"}},
      {"FailedPlanesOfNone",
       "run --topology star --algorithm p2p --set fabric.failed_planes=0",
       {"fabric.failed_planes", "'0'", "this fabric has no planes"}},
      {"FailedLink",
       kTiny + "--set fabric.failed_links=device3-L1.node0.plane0",
       {"fabric.failed_links", "'device3-L1.node0.plane0'",
        "did you mean 'device0-L1.node0.plane0'"}},
      {"CutOff",
       kTiny + "--set fabric.failed_planes=0,1",
       {"fabric.failed_planes", "'0,1'", "6 of 6 pairs are cut off, first device0 and device1"}},
      {"CutOffSweep",
       kSweep + "--vary 'fabric.failed_planes=0,1;1,0'",
       {"fabric.failed_planes", "6 of 6 pairs are cut off", "no point of the sweep can run"}},
      {"TopoFailedPlane",
       "topo tiny --set fabric.failed_planes=7",
       {"fabric.failed_planes", "'7'", "planes from 0 to 1"}},
      {"TopoSetWorkload",
       "topo tiny --set workload.tokens=7",
       {"--set", "workload.tokens", "fabric. or device."}},
      {"RangesUnknown",
       "validate --suite cm384 --ranges cm348",
       {"--ranges", "'cm348'", "did you mean 'cm384'"}},
      {"ModelOfNoModel", kTiny + "--operation model", {"workload tiny", "attention", "'nothing'"}},
      {"ModelWithoutVocabulary",
       kTiny + "--operation model --set workload.attention.heads=4 --set "
               "workload.attention.kv_heads=2 --set "
               "workload.attention.head_dim=8",
       {"workload tiny", "vocabulary", "'nothing'"}},
      {"MoreLayersThanTheModel",
       kFull + "--devices 2 --tokens 1 --payload control --operation model --iterations 59",
       {"--iterations", "'59'", "58 layers with experts"}},
      {"AttentionWithoutHeads",
       kTiny + "--set workload.attention.kv_heads=4",
       {"attention.heads", "'nothing'"}},
      {"AttentionWithoutHeadDim",
       kTiny + "--set workload.attention.heads=4 --set workload.attention.kv_heads=2",
       {"attention.head_dim", "'nothing'", "GQA"}},
      {"HeadsThatDoNotDivide",
       kFull + "--set workload.attention.kind=GQA --set workload.attention.kv_heads=3 --set "
               "workload.attention.head_dim=8",
       {"attention.kv_heads", "'3'", "a divisor of attention.heads (128)"}},
      {"SparseWithoutIndexer",
       kFull + "--set workload.attention.sparse_top_k=64",
       {"attention.index_heads", "'nothing'", "sparse_top_k"}},
      {"SetTopK", kTiny + "--set workload.top_k=9", {"top_k", "'9'", "experts (8)"}},
      {"SetUnknownOption",
       kTiny + "--set algorithm.quantize=int8",
       {"--set", "algorithm.quantize", "did you mean 'quantise'"}},
      {"SetUnknownChoice",
       kTiny + "--set algorithm.quantise=int4",
       {"--set", "algorithm.quantise", "'int4'", "int8"}},
      {"SetOptionRange",
       kTiny + "--set algorithm.cores=5",
       {"--set", "algorithm.cores", "'5'", "1 to 4"}},
      {"SetOptionZero",
       "run --topology tiny --algorithm p2p --set algorithm.bytes=0",
       {"--set", "algorithm.bytes", "'0'", "from 1"}},
      // Plug-ins; what is wrong with one that loads is in plugin_test.cc
      {"PluginMissing", kTiny + "--plugin DIR/none.so", {"--plugin", "none.so'", "exists"}},
      {"PluginEmptyName", kTiny + "--plugin ''", {"--plugin", "''", "exists"}},
      {"PluginNoValue", kTiny + "--plugin", {"--plugin", "nothing"}},
      {"PluginIsFolder", kTiny + "--plugin DIR", {"--plugin", "not a directory"}},
      {"PluginIsText",
       kTiny + "--plugin DIR/no-device.textproto",
       {"--plugin", "no-device.textproto'", "invalid ELF header"}},
      {"PluginIsEmpty",
       kTiny + "--plugin DIR/empty.textproto",
       {"--plugin", "empty.textproto'", "file too short"}},
      {"PluginSecond",
       kTiny + "--plugin DIR/none.so --plugin DIR/other.so",
       {"--plugin", "none.so'", "exists"}},
      {"PluginOfList", "list algorithms --plugin DIR/none.so", {"--plugin", "none.so'"}},
      {"PluginOfSuite", "validate --plugin DIR/none.so", {"--plugin", "none.so'"}},
      // Topology files
      {"FileMissing",
       "run --topology DIR/none.textproto --algorithm p2p",
       {"--topology", "none.textproto", "exists"}},
      {"FileIsFolder", "run --topology DIR/ --algorithm p2p", {"a directory", "text protobuf"}},
      {"FileTruncated",
       "run --topology DIR/truncated.textproto --algorithm p2p",
       {"truncated.textproto:1"}},
      {"FileGarbage",
       "run --topology DIR/garbage.textproto --algorithm p2p",
       {"garbage.textproto:1"}},
      {"FileEmpty",
       "run --topology DIR/empty.textproto --algorithm p2p",
       {"empty.textproto", "fabric", "nothing"}},
      {"FileUnknownField",
       "run --topology DIR/unknown-field.textproto --algorithm p2p",
       {"unknown-field.textproto:3", "fabrik", "did you mean 'fabric'"}},
      {"FileEnum",
       "run --topology DIR/bad-enum.textproto --algorithm p2p",
       {"bad-enum.textproto:1", "order_scope", "SOMETIMES", "DEVICE_PAIR"}},
      {"FileRange",
       "run --topology DIR/bad-range.textproto --algorithm p2p",
       {"bad-range.textproto", "fabric.star.link.latency_ns", "-7"}},
      {"FileNotANumber",
       "run --topology DIR/not-a-number.textproto --algorithm p2p",
       {"not-a-number.textproto:1", "devices", "many", "integer"}},
      {"FileNoGenerator",
       "run --topology DIR/no-generator.textproto --algorithm p2p",
       {"no-generator.textproto", "clos"}},
      {"FileNoLink",
       "run --topology DIR/no-link.textproto --algorithm p2p",
       {"no-link.textproto", "link"}},
      {"FileTwoGenerators",
       "run --topology DIR/two-generators.textproto --algorithm p2p",
       {"two-generators.textproto:1", "full_mesh"}},
      {"NcclBytes",
       "run --topology tiny --algorithm nccl-alltoall --set algorithm.bytes=24",
       {"algorithm.bytes", "'24'", "a multiple of 16"}},
      {"MoriNodes",
       "run --topology h100-ib --algorithm mori --devices 16",
       {"--devices", "'16'", "one node"}},
      {"FileTorusLinks",
       "run --topology DIR/two-links.textproto --algorithm p2p",
       {"two-links.textproto", "fabric.torus.links", "'2 links'", "one per dimension"}},
      {"FileNoDevice",
       "run --topology DIR/no-device.textproto --algorithm p2p",
       {"no-device.textproto", "device", "nothing"}},
      // Workload files
      {"WorkloadNoExperts",
       kTiny + "--workload DIR/no-experts.textproto",
       {"no-experts.textproto", "experts", "nothing"}},
      {"WorkloadTopK",
       kTiny + "--workload DIR/k-above-experts.textproto",
       {"k-above-experts.textproto", "top_k", "'9'"}},
      {"WorkloadGroups",
       kTiny + "--workload DIR/groups.textproto",
       {"groups.textproto", "expert_groups", "'3'"}},
      {"WorkloadCounts",
       kTiny + "--workload DIR/three-counts.textproto",
       {"three-counts.textproto", "tokens_per_device", "3 numbers", "devices (4)"}},
      {"WorkloadBound",
       kTiny + "--workload DIR/bounded.textproto --tokens 17",
       {"bounded.textproto", "tokens", "'17'", "max_tokens (16)"}},
      // Traces
      {"TraceUnnamed",
       kTiny + "--workload DIR/no-trace.textproto",
       {"no-trace.textproto", "gate.trace_file"}},
      {"TraceMissing",
       kTiny + "--workload DIR/lost-trace.textproto",
       {"gate.trace_file", "none", "can be read"}},
      {"TraceIsFolder",
       kTiny + "--workload DIR/folder-trace.textproto",
       {"gate.trace_file", "not a directory"}},
      {"TraceNotJson",
       kTiny + "--workload DIR/not-json.textproto",
       {"not-json.jsonl:2", "a JSON object"}},
      {"TraceArray",
       kTiny + "--workload DIR/an-array.textproto",
       {"an-array.jsonl:2", "a JSON object"}},
      {"TraceBinary",
       kTiny + "--workload DIR/binary.textproto",
       {"binary.jsonl:1", "a JSON object"}},
      {"TraceNoLayer",
       kTiny + "--workload DIR/no-layer.textproto",
       {"no-layer.jsonl:2", "layer", "nothing"}},
      {"TraceNoIds",
       kTiny + "--workload DIR/no-ids.textproto",
       {"no-ids.jsonl:2", "topk_ids", "nothing"}},
      {"TraceExpert",
       kTiny + "--workload DIR/expert-8.textproto",
       {"expert-8.jsonl:2", "topk_ids[1]", "'8'", "0 to 7"}},
      {"TraceExpertText",
       kTiny + "--workload DIR/expert-text.textproto",
       {"expert-text.jsonl:2", "topk_ids[1]"}},
      {"TraceExpertNegative",
       kTiny + "--workload DIR/expert-minus-2.textproto",
       {"expert-minus-2.jsonl:2", "topk_ids[1]", "'-2'"}},
      {"TraceIdCount",
       kTiny + "--workload DIR/three-ids.textproto",
       {"three-ids.jsonl:2", "topk_ids", "top_k (2)"}},
      {"TraceTwice",
       kTiny + "--workload DIR/twice.textproto",
       {"twice.jsonl:2", "topk_ids[1]", "distinct"}},
      {"TraceWeight",
       kTiny + "--workload DIR/weight.textproto",
       {"weight.jsonl:2", "topk_weights[1]", "'-1'"}},
      {"TraceLayer",
       kTiny + "--workload DIR/other-layer.textproto",
       {"other-layer.jsonl", "layer 7", "layer 0"}},
      // Memory
      {"MemoryTokens",
       kFull + "--tokens 1000000",
       {"deepseek-r1.textproto", "tokens", "768000000 tokens", "GiB"}},
      {"MemoryIterations",
       kFull + "--iterations 1000000",
       {"deepseek-r1.textproto", "1000000 iterations", "GiB"}},
      // Results
      {"JsonNoFolder",
       kTiny + "--json DIR/none/result.json",
       {"--json", "none/result.json", "can be written"}},
      {"JsonIsFolder", kTiny + "--json DIR", {"--json", "a directory"}},
      // Traces
      {"TraceFileEmpty", kTiny + "--trace ''", {"--trace", "''", "name of a file"}},
      {"TraceFileNoFolder",
       kTiny + "--trace DIR/none/trace.json",
       {"--trace", "none/trace.json", "can be written"}},
      {"TraceFileIsFolder", kTiny + "--trace DIR", {"--trace", "a directory"}},
      {"TraceFileIsTheResult",
       kTiny + "--json DIR/both.json --trace DIR/both.json",
       {"--trace", "both.json", "--json"}},
      {"TraceDevicesAlone",
       kTiny + "--trace-devices 0",
       {"--trace-devices", "'0'", "--trace FILE"}},
      {"TraceFromAlone", kTiny + "--trace-from-us 1", {"--trace-from-us", "'1'", "--trace FILE"}},
      {"TraceEventsAlone",
       kTiny + "--trace-events 5000",
       {"--trace-events", "'5000'", "--trace FILE"}},
      {"TraceDevicesEmpty", kTraced + "--trace-devices ''", {"--trace-devices", "''", "0 to 3"}},
      {"TraceDevicesText", kTraced + "--trace-devices all", {"--trace-devices", "'all'", "0 to 3"}},
      {"TraceDevicesTooLarge",
       kTraced + "--trace-devices 0-4",
       {"--trace-devices", "'4'", "0 to 3"}},
      {"TraceDevicesNegative", kTraced + "--trace-devices -1", {"--trace-devices", "'-1'"}},
      {"TraceDevicesBackwards",
       kTraced + "--trace-devices 3-1",
       {"--trace-devices", "'3-1'", "upwards"}},
      {"TraceDevicesOpenRange", kTraced + "--trace-devices 1-", {"--trace-devices", "''"}},
      {"TraceFromText",
       kTraced + "--trace-from-us early",
       {"--trace-from-us", "'early'", "microseconds"}},
      {"TraceFromNegative", kTraced + "--trace-from-us -1", {"--trace-from-us", "'-1'"}},
      {"TraceFromNan", kTraced + "--trace-from-us nan", {"--trace-from-us", "'nan'"}},
      {"TraceToBeforeFrom",
       kTraced + "--trace-from-us 5 --trace-to-us 5",
       {"--trace-to-us", "'5'", "more than --trace-from-us 5"}},
      {"TraceToZero", kTraced + "--trace-to-us 0", {"--trace-to-us", "'0'"}},
      {"TraceEventsFew", kTraced + "--trace-events 999", {"--trace-events", "'999'", "1000"}},
      {"TraceEventsMany",
       kTraced + "--trace-events 20000001",
       {"--trace-events", "'20000001'", "20000000"}},
      {"TimelineValue", kTiny + "--timeline=big", {"--timeline", "big"}},
      // Sweeps
      {"SweepNothing", kSweep, {"--vary", "nothing", "key=value"}},
      {"SweepNoFolder", "sweep --topology tiny --vary tokens=1", {"--out", "nothing", "folder"}},
      {"SweepNoTopology",
       "sweep --algorithm ring --vary tokens=1 --out DIR/sweep",
       {"--topology", "nothing", "--vary"}},
      {"SweepNoAlgorithm",
       "sweep --topology tiny --vary tokens=1 --out DIR/sweep",
       {"--algorithm", "nothing", "--vary"}},
      {"SweepUnknownFlag", kSweep + "--varry tokens=1", {"'--varry'", "did you mean '--vary'"}},
      {"SweepNoValues", kSweep + "--vary tokens", {"--vary", "'tokens'", "key=value"}},
      {"SweepEmptyValue", kSweep + "--vary tokens=4,", {"--vary", "tokens", "''"}},
      {"SweepUnknownKey", kSweep + "--vary tokenz=1", {"'tokenz'", "did you mean 'tokens'"}},
      {"SweepTransport", kSweep + "--vary transport=ucx,ofi", {"--vary", "'transport'"}},
      {"SweepUnknownPath",
       kSweep + "--vary fabric.packet_byte=64",
       {"--vary", "fabric.packet_byte", "did you mean 'packet_bytes'"}},
      {"SweepUnknownOption",
       kSweep + "--vary algorithm.quantize=int8",
       {"--vary", "algorithm.quantize", "did you mean 'quantise'"}},
      {"SweepValueText", kSweep + "--vary tokens=4,many", {"--tokens", "'many'", "whole number"}},
      {"SweepValueRange",
       kSweep + "--vary fabric.packet_bytes=512,8",
       {"--vary", "fabric.packet_bytes", "'8'", "16 to 65536"}},
      {"SweepValueTwice", kSweep + "--vary tokens=4,8,4", {"--vary", "tokens", "'4'", "once"}},
      {"SweepRangeBackwards", kSweep + "--vary tokens=9:1", {"tokens", "'9:1'", "not below"}},
      {"SweepRangeText", kSweep + "--vary tokens=1:x", {"tokens", "'1:x'", "first:last"}},
      {"SweepRangeFactor", kSweep + "--vary tokens=1:9:*1", {"'1:9:*1'", "at least 2"}},
      {"SweepRangeHuge",
       kSweep + "--vary seed=0:18446744073709551615",
       {"--vary", "seed", "at most 100000"}},
      {"SweepProductHuge",
       kSweep + "--vary seed=1:1000 --vary tokens=1:1000",
       {"--vary", "tokens", "at most 100000 points"}},
      {"SweepKeyTwice",
       kSweep + "--vary tokens=1 --vary tokens=2",
       {"--vary", "'tokens'", "only once"}},
      {"SweepFixedAndVaried",
       kSweep + "--tokens 4 --vary tokens=1",
       {"--vary", "tokens", "fixed to '4'"}},
      {"SweepSetAndVaried",
       kSweep + "--set device.cores=2 --vary device.cores=1",
       {"--vary", "device.cores", "fixed to '2'"}},
      {"SweepZipUneven",
       kSweep + "--zip --vary tokens=1,2 --vary seed=1",
       {"--zip", "seed", "as many values as tokens has, 2"}},
      {"SweepSwitch", kSweep + "--vary align=maybe", {"--vary", "align", "'maybe'", "true or"}},
      {"SweepNoPointRuns", kSweep + "--vary devices=5,6", {"--devices", "'5'", "no point"}},
      {"SweepMetric",
       kSweep + "--vary tokens=1 --metric dispatch.latency_us.mx",
       {"--metric", "'dispatch.latency_us.mx'", "did you mean 'max'"}},
      {"SweepPerPoint",
       kSweep + "--vary tokens=1 --processes-per-point 64",
       {"--processes-per-point", "'64'", "at most"}},
      {"SweepPerPointZero",
       kSweep + "--vary tokens=1 --processes-per-point 0",
       {"--processes-per-point", "'0'", "from 1"}},
      {"SweepThreads", kSweep + "--vary tokens=1 --threads 0", {"--threads", "'0'", "from 1"}},
      {"SweepThreadsTransport",
       kSweep + "--vary tokens=1 --threads 2 --transport ucx",
       {"--transport", "'ucx'", "side by side"}},
      {"SweepCsv", kSweep + "--vary tokens=1 --csv DIR", {"--csv", "a directory"}},
      {"SweepFolderIsFile",
       "sweep --topology tiny --algorithm ring --vary tokens=1 --out DIR/empty.textproto",
       {"--out", "empty.textproto", "a folder"}},
      {"SweepFileMissing",
       kSweep + "--file DIR/none.sweep.textproto",
       {"none.sweep.textproto", "No such file"}},
      {"SweepFileGarbage", kSweep + "--file DIR/garbage.textproto", {"garbage.textproto:1"}},
      {"SweepFileField",
       kSweep + "--file DIR/field.sweep.textproto",
       {"field.sweep.textproto:1", "topologie", "did you mean 'topology'"}},
      {"SweepFileValues",
       kSweep + "--file DIR/values.sweep.textproto",
       {"values.sweep.textproto", "tokens", "'1:'"}},
      {"SweepFileKey",
       kSweep + "--file DIR/key.sweep.textproto",
       {"key.sweep.textproto", "vary.0.key", "nothing"}},
      // Comparisons
      {"CompareNothing", "compare", {"results", "nothing", "orrery run --json"}},
      {"CompareOne", "compare DIR/good.json", {"good.json", "two results or more, or a sweep"}},
      {"CompareMissing",
       "compare DIR/none.json DIR/good.json",
       {"none.json: got 'No such file", "orrery run --json"}},
      {"CompareFolder", "compare DIR/", {"a folder without points.jsonl"}},
      {"CompareEmpty",
       "compare DIR/good.json DIR/empty.textproto",
       {"empty.textproto", "an empty file"}},
      {"CompareGarbage", "compare DIR/good.json DIR/garbage.textproto", {"garbage.textproto:1"}},
      {"CompareCut", "compare DIR/good.json DIR/cut.json", {"cut.json:3", "unexpected end"}},
      {"CompareUnknownField",
       "compare DIR/good.json DIR/unknown.json",
       {"unknown.json", "got 'device'", "did you mean 'devices'"}},
      {"CompareRange",
       "compare DIR/good.json DIR/negative.json",
       {"negative.json", "devices", "'-4'", "a whole number from 0"}},
      {"CompareNoOperations",
       "compare DIR/good.json DIR/nothing.json",
       {"nothing.json", "operations", "at least one"}},
      {"CompareNoName",
       "compare DIR/good.json DIR/nameless.json",
       {"nameless.json", "operations[0].name", "nothing"}},
      {"CompareTornWithin", "compare DIR/torn.jsonl", {"torn.jsonl:2", "a point of a sweep"}},
      {"CompareOutcome",
       "compare DIR/outcome.jsonl",
       {"outcome.jsonl:2", "outcome", "'fine'", "hang or error"}},
      {"CompareMixed",
       "compare DIR/good.json DIR/good.jsonl",
       {"good.jsonl", "'a sweep'", "a result as"}},
      {"CompareJson", "compare DIR/good.json DIR/good.json --json DIR", {"--json", "a directory"}},
      // The other commands
      {"ListNothing", "list", {"what", "nothing", "topologies"}},
      {"ListUnknown", "list topology", {"orrery list", "'topology'", "topologies"}},
      {"TopoNothing", "topo", {"topology", "nothing"}},
      {"TopoUnknown", "topo cm348", {"topology", "'cm348'", "did you mean 'cm384'"}},
      {"TopoExtraWord", "topo tiny star", {"orrery topo", "'star'"}},
      {"SuiteUnknown",
       "validate --suite ubmesh",
       {"--suite", "'ubmesh'", "did you mean 'ub-mesh'"}},
      {"SuiteNoRows",
       "validate --suite DIR/no-rows.suite.textproto",
       {"no-rows.suite.textproto", "rows", "nothing"}},
      {"SuiteNoFigure",
       "validate --suite DIR/no-figure.suite.textproto",
       {"no-figure.suite.textproto", "rows.0.published_us", "nothing"}},
      {"SuiteIdTwice",
       "validate --suite DIR/twice.suite.textproto",
       {"twice.suite.textproto", "rows.1.id", "'r'"}},
      {"SuiteExtraFigure",
       "validate --suite DIR/extra-figure.suite.textproto",
       {"extra-figure.suite.textproto", "rows.0.role", "EXTRA"}},
      {"SuiteNoSource",
       "validate --suite DIR/no-source.suite.textproto",
       {"no-source.suite.textproto", "rows.0.source", "nothing"}},
      {"SuiteTopology",
       "validate --suite DIR/lost-topology.suite.textproto",
       {"lost-topology.suite.textproto", "row r", "'tinny'", "did you mean 'tiny'"}},
      {"SuiteJson", "validate --json DIR", {"--json", "a directory"}},
      {"LitmusTopology", "litmus --topology tine", {"--topology", "'tine'", "did you mean 'tiny'"}},
      {"LitmusTest", "litmus --test mesage", {"--test", "'mesage'", "did you mean 'message'"}},
      {"LitmusRuns", "litmus --runs 0", {"--runs", "'0'", "from 1 to 1000000"}},
      {"LitmusSeed", "litmus --seed -1", {"--seed", "'-1'"}},
      {"LitmusSetWorkload",
       "litmus --set workload.tokens=1",
       {"--set", "workload.tokens", "begins with fabric. or device."}},
      {"LitmusSetField",
       "litmus --set fabric.order_scop=NONE",
       {"--set", "order_scop", "did you mean"}},
      {"LitmusPlacement", "litmus --topology tiny --placement 0-9", {"--placement", "0 to 3"}},
      {"LitmusJson", "litmus --json DIR", {"--json", "a directory"}},
  };
  return list;
}

void expect_one_line(const Case& each, int processes) {
  write_files();
  std::filesystem::remove_all(scratch_folder() / "sweep");
  std::string arguments = each.arguments;
  for (std::size_t at; (at = arguments.find("DIR")) != std::string::npos;) {
    arguments.replace(at, 3, scratch_folder().string());
  }
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = run_program(arguments, processes);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, ::testing::StartsWith("orrery: "));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  for (const std::string& part : each.named) EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_FALSE(std::filesystem::exists(scratch_folder() / "sweep")) << "work has begun";
  EXPECT_LT(took.count(), 20) << "this is more than reading files";
}

class BadInput : public ::testing::TestWithParam<Case> {};

TEST_P(BadInput, IsOneLineAndExitCode2) { expect_one_line(GetParam(), 0); }

INSTANTIATE_TEST_SUITE_P(All, BadInput, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

std::vector<Case> cases_for_mpirun() {
  std::vector<Case> list = {
      {"LocalTransport", kTiny + "--transport local", {"--transport", "'local'", "under mpirun"}}};
  const std::vector<std::string> wanted = {
      "NoCommand",         "UnknownFlag",       "UnknownTopology",      "DevicesTooMany",
      "TokensText",        "PlacementTwice",    "SetUnknownField",      "SetUnknownOption",
      "SetOptionRange",    "FileGarbage",       "TraceExpert",          "MemoryTokens",
      "JsonNoFolder",      "SuiteNoFigure",     "PluginMissing",        "PluginIsText",
      "SweepUnknownKey",   "SweepNoPointRuns",  "SweepPerPoint",        "SweepCsv",
      "SweepFolderIsFile", "TraceFileNoFolder", "TraceDevicesTooLarge", "CompareMissing",
      "CompareOutcome",    "CompareMixed",      "CompareJson",          "LitmusTest",
      "LitmusJson"};
  for (const Case& each : cases()) {
    if (std::find(wanted.begin(), wanted.end(), each.name) != wanted.end()) list.push_back(each);
  }
  return list;
}

class BadInputUnderMpirun : public ::testing::TestWithParam<Case> {};

TEST_P(BadInputUnderMpirun, IsOneMessageNotOnePerProcess) { expect_one_line(GetParam(), 3); }

INSTANTIATE_TEST_SUITE_P(All, BadInputUnderMpirun, ::testing::ValuesIn(cases_for_mpirun()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace orrery::cli
