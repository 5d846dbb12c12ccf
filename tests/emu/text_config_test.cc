#include "emu/text_config.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "emu/errors.h"
#include "emu/options.pb.h"

namespace orrery::emu {
namespace {

using google::protobuf::Message;
using ::testing::HasSubstr;

// A schema of every kind of field, as text that google.protobuf.FileDescriptorProto reads.
constexpr const char* kSchema = R"(
  name: "test.proto" package: "test" dependency: "emu/options.proto"
  message_type {
    name: "Link"
    field { name: "latency_ns" number: 1 label: LABEL_OPTIONAL type: TYPE_DOUBLE options {
            [orrery.emu.range] { min: 0.001 max: 1e9 } [orrery.emu.needed]: true } }
  }
  message_type {
    name: "Grid"
    field { name: "dimensions" number: 1 label: LABEL_REPEATED type: TYPE_UINT32 options {
            [orrery.emu.range] { min: 1 max: 64 } } }
    field { name: "links" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "Link" }
  }
  message_type {
    name: "Ring"
    field { name: "size" number: 1 label: LABEL_OPTIONAL type: TYPE_UINT32 }
  }
  message_type {
    name: "Root"
    enum_type {
      name: "Scope"
      value { name: "DEVICE_PAIR" number: 0 }
      value { name: "CORE_PAIR" number: 1 }
    }
    oneof_decl { name: "generator" }
    field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "planes" number: 2 label: LABEL_OPTIONAL type: TYPE_UINT32 options {
            [orrery.emu.range] { min: 1 max: 256 } } }
    field { name: "offset" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
    field { name: "seed" number: 4 label: LABEL_OPTIONAL type: TYPE_UINT64 }
    field { name: "time" number: 5 label: LABEL_OPTIONAL type: TYPE_INT64 }
    field { name: "rate" number: 6 label: LABEL_OPTIONAL type: TYPE_DOUBLE options {
            [orrery.emu.range] { min: 0 max: 100 } } }
    field { name: "share" number: 7 label: LABEL_OPTIONAL type: TYPE_FLOAT }
    field { name: "check" number: 8 label: LABEL_OPTIONAL type: TYPE_BOOL }
    field { name: "scope" number: 9 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: "Scope" }
    field { name: "scopes" number: 10 label: LABEL_REPEATED type: TYPE_ENUM type_name: "Scope" }
    field { name: "grid" number: 20 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Grid"
            oneof_index: 0 }
    field { name: "ring" number: 21 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Ring"
            oneof_index: 0 }
    field { name: "link" number: 30 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Link" }
    field { name: "inner" number: 31 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Root" }
  }
)";

class TextConfig : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Range::descriptor();  // makes emu/options.proto known to the generated pool
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kSchema, &file));
    pool_ =
        new google::protobuf::DescriptorPool(google::protobuf::DescriptorPool::generated_pool());
    ASSERT_NE(pool_->BuildFile(file), nullptr);
    factory_ = new google::protobuf::DynamicMessageFactory(pool_);
  }
  static void TearDownTestSuite() {
    delete factory_;
    delete pool_;
  }

  static std::unique_ptr<Message> root() {
    return std::unique_ptr<Message>(
        factory_->GetPrototype(pool_->FindMessageTypeByName("test.Root"))->New());
  }
  static std::unique_ptr<Message> parsed(const std::string& text) {
    auto message = root();
    parse_text(text, "t.textproto", *message);
    return message;
  }
  template <typename Call>
  static std::string error_of(Call call) {
    try {
      call();
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
      return what;
    }
    return "no error";
  }
  static std::string parse_error(const std::string& text) {
    return error_of([&] { parsed(text); });
  }
  static std::string set_error(Message& message, const std::string& field,
                               const std::string& value) {
    const std::string before = message.ShortDebugString();
    const std::string error = error_of([&] { set_field(message, field, value, "--set"); });
    if (error != "no error") {
      EXPECT_EQ(message.ShortDebugString(), before) << "a refused value left a trace";
    }
    return error;
  }
  static std::string range_error(const std::string& text) {
    return error_of([&] { check_ranges(*parsed(text), "t.textproto"); });
  }

  static google::protobuf::DescriptorPool* pool_;
  static google::protobuf::DynamicMessageFactory* factory_;
};
google::protobuf::DescriptorPool* TextConfig::pool_ = nullptr;
google::protobuf::DynamicMessageFactory* TextConfig::factory_ = nullptr;

TEST_F(TextConfig, ParseClearsWhatWasThere) {
  auto message = parsed("planes: 7 name: 'a'");
  parse_text("planes: 3", "t", *message);
  EXPECT_EQ(message->ShortDebugString(), "planes: 3");
}

TEST_F(TextConfig, ParseErrorsNameLineFieldValueAndExpectation) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"planes: 7\nplane: 3",
       "t.textproto:2: got 'plane', expected one of the fields name, planes"},
      {"planes: 7\nplane: 3", "(did you mean 'planes'?)"},
      {"grid {\n  dimension: 3\n}",
       "t.textproto:2: grid: got 'dimension', expected one of the fields dimensions"},
      {"planes: many", "t.textproto:1: planes: got 'many', expected an integer from 1 to 256"},
      {"# note { \n\tplanes: -3",
       "t.textproto:2: planes: got '-3', expected an integer from 1 to 256"},
      {"planes: 5000000000", "planes: got '5000000000', expected an integer from 1 to 256"},
      {"planes: 7.5", "planes: got '7.5', expected an integer"},
      {"seed: 18446744073709551616",
       "seed: got '18446744073709551616', expected an integer from 0 up"},
      {"rate: fast", "rate: got 'fast', expected a number from 0 to 100"},
      {"check: maybe", "check: got 'maybe', expected true or false"},
      {"scope: device_pair", "scope: got 'device_pair', expected one of DEVICE_PAIR, CORE_PAIR"},
      {"scope: 17", "scope: got '17', expected one of DEVICE_PAIR, CORE_PAIR"},
      {"name: 5", "name: got '5', expected text"},
      {"planes: 1 planes: 2", "got 'planes', expected this field only once"},
      {"ring {} grid {}",
       "got 'grid', expected nothing: 'ring' of the same choice is given already"},
      {"grid {\n links { latency_ns: x } }",
       "t.textproto:2: grid.links.latency_ns: got 'x', expected a number"},
      {"grid { links: [ {latency_ns: 1}, {latency_ns: x} ] }", "grid.links.latency_ns: got 'x'"},
      {"grid {", "got 'end of file', expected"},
      {"}", "got '}', expected"},
      {"name: \"open", "t.textproto:1: "},
      {"[foreign.extension]: 3", "t.textproto:1: "},
  };
  for (const auto& test : cases)
    EXPECT_THAT(parse_error(test.text), HasSubstr(test.error)) << test.text;
}

TEST_F(TextConfig, DeepNestingIsRefused) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "inner{";
  EXPECT_THAT(parse_error(text), HasSubstr("expected"));
}

TEST_F(TextConfig, AnyBytesEndInAConfigErrorOrAMessage) {
  const std::string seed_text =
      "planes: 7 grid { links { latency_ns: 1e3 } dimensions: [1, 2] } name: 'x' scope: CORE_PAIR";
  std::uint64_t state = 1;
  const auto next = [&state] {
    return state = state * 6364136223846793005u + 1442695040888963407u;
  };
  for (int round = 0; round < 3000; ++round) {
    std::string text = seed_text;
    const auto changes = 1 + (next() >> 33) % 6;
    for (std::uint64_t i = 0; i < changes; ++i)
      text[(next() >> 33) % text.size()] = static_cast<char>(next() >> 40);
    if (round % 7 == 0) text.resize((next() >> 33) % text.size());
    try {
      check_ranges(*parsed(text), "t");
    } catch (const ConfigError&) {
    }
  }
  EXPECT_THAT(parse_error(std::string("planes: 7\0", 10)), HasSubstr("t.textproto:1: "));
}

class TextFile : public TextConfig {
 protected:
  TextFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "orrery-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  ~TextFile() override { std::filesystem::remove_all(directory_); }
  std::string load_error(const std::string& path) {
    return error_of([&] { load_text_file(path, *root()); });
  }
  std::filesystem::path directory_;
};

TEST_F(TextFile, LoadsAFile) {
  const std::string path = directory_ / "good";
  std::ofstream(path) << "planes: 5  # five\n";
  auto message = root();
  load_text_file(path, *message);
  EXPECT_EQ(message->ShortDebugString(), "planes: 5");
}

TEST_F(TextFile, RefusesWhatIsNoReadableFile) {
  const std::string bad = directory_ / "bad";
  std::ofstream(bad) << "plains: 5\n";
  const std::string large = directory_ / "large";
  std::ofstream(large) << "#";
  std::filesystem::resize_file(large, (64u << 20) + 1);
  EXPECT_THAT(load_error(directory_ / "none"),
              HasSubstr("none: got 'No such file or directory', expected a readable"));
  EXPECT_THAT(load_error(directory_),
              HasSubstr("got 'a directory', expected a text protobuf file"));
  EXPECT_THAT(load_error(large), HasSubstr("at most 64 MiB"));
  EXPECT_THAT(load_error(bad), HasSubstr("bad:1: got 'plains'"));
  EXPECT_THAT(load_error("/dev/zero"), HasSubstr("at most 64 MiB"));
  EXPECT_THAT(load_error(""), HasSubstr("expected a readable"));
}

TEST_F(TextConfig, SetFieldSetsEveryKind) {
  const struct {
    const char* field;
    const char* value;
    const char* result;
  } cases[] = {
      {"name", "a,b c", "name: \"a,b c\""},
      {"name", "", "name: \"\""},
      {"planes", "7", "planes: 7"},
      {"offset", "-5", "offset: -5"},
      {"seed", "18446744073709551615", "seed: 18446744073709551615"},
      {"time", "-9223372036854775808", "time: -9223372036854775808"},
      {"rate", "1e1", "rate: 10"},
      {"share", "-0.5", "share: -0.5"},
      {"check", "TRUE", "check: true"},
      {"check", "0", "check: false"},
      {"scope", "core_pair", "scope: CORE_PAIR"},
      {"scope", "Device_Pair", "scope: DEVICE_PAIR"},
      {"scopes", "core_pair,DEVICE_PAIR", "scopes: CORE_PAIR scopes: DEVICE_PAIR"},
      {"grid.dimensions", "4,4", "grid { dimensions: 4 dimensions: 4 }"},
      {"link.latency_ns", "500", "link { latency_ns: 500 }"},
      {"inner.inner.planes", "2", "inner { inner { planes: 2 } }"},
  };
  for (const auto& test : cases) {
    auto message = root();
    set_field(*message, test.field, test.value, "--set");
    EXPECT_EQ(message->ShortDebugString(), test.result);
  }
}

TEST_F(TextConfig, SetFieldReachesElements) {
  auto message =
      parsed("grid { dimensions: [2, 3] links { latency_ns: 1 } links { latency_ns: 2 } }");
  set_field(*message, "grid.links.1.latency_ns", "9", "--set");
  set_field(*message, "grid.dimensions.0", "8", "--set");
  EXPECT_EQ(message->ShortDebugString(),
            "grid { dimensions: 8 dimensions: 3 links { latency_ns: 1 } links { latency_ns: 9 } }");
  set_field(*message, "grid.dimensions", "5", "--set");
  EXPECT_THAT(message->ShortDebugString(), HasSubstr("grid { dimensions: 5 links"));
  set_field(*message, "grid.dimensions", "none", "--set");
  EXPECT_THAT(message->ShortDebugString(), HasSubstr("grid { links"));
}

TEST_F(TextConfig, SetFieldRefuses) {
  const struct {
    const char* field;
    const char* value;
    const char* error;
  } cases[] = {
      {"plane", "7", "--set: plane: got 'plane', expected one of the fields name, planes"},
      {"plane", "7", "(did you mean 'planes'?)"},
      {"grid.size", "7",
       "--set: grid.size: got 'size', expected one of the fields dimensions, links"},
      {"", "7", "got '', expected one of the fields"},
      {".", "7", "got '', expected one of the fields"},
      {"grid.", "7", "got '', expected one of the fields"},
      {"planes.x", "7", "got 'x', expected the path to end at 'planes'"},
      {"planes", "", "got '', expected an integer from 1 to 256"},
      {"planes", "-1", "got '-1', expected an integer from 1 to 256"},
      {"planes", "0", "got '0', expected an integer from 1 to 256"},
      {"planes", "257", "got '257', expected an integer from 1 to 256"},
      {"planes", "4294967297", "got '4294967297', expected an integer from 1 to 256"},
      {"planes", "7x", "got '7x', expected an integer"},
      {"planes", " 7", "got ' 7', expected an integer"},
      {"planes", "7.0", "got '7.0', expected an integer"},
      {"planes", "nan", "got 'nan', expected an integer"},
      {"seed", "-1", "got '-1', expected an integer from 0 up"},
      {"seed", "18446744073709551616", "expected an integer from 0 up"},
      {"time", "9223372036854775808", "expected an integer"},
      {"offset", "2147483648", "expected an integer"},
      {"rate", "nan", "got 'nan', expected a number from 0 to 100"},
      {"rate", "inf", "got 'inf', expected a number from 0 to 100"},
      {"rate", "1e999", "got '1e999', expected a number from 0 to 100"},
      {"rate", "-0.1", "got '-0.1', expected a number from 0 to 100"},
      {"rate", "5 ns", "got '5 ns', expected a number from 0 to 100"},
      {"share", "1e39", "expected a finite number"},
      {"check", "maybe", "got 'maybe', expected true or false"},
      {"scope", "device", "got 'device', expected one of DEVICE_PAIR, CORE_PAIR"},
      {"scope", "1", "got '1', expected one of DEVICE_PAIR, CORE_PAIR"},
      {"link", "5", "got '5', expected a field inside it: a message { latency_ns }"},
      {"grid.dimensions", "4,,4", "got '', expected an integer from 1 to 64"},
      {"grid.dimensions", "4,65", "got '65', expected an integer from 1 to 64"},
      {"grid.dimensions.0", "4", "got '0', expected no element: 'dimensions' is empty"},
      {"grid.links", "4",
       "expected an element and a field inside it, e.g. 'grid.links.0.latency_ns'"},
      {"grid.links.0.latency_ns", "4", "got '0', expected no element"},
      {"planes", "multi\nline", "got 'multi?line'"},
  };
  for (const auto& test : cases) {
    auto message = root();
    EXPECT_THAT(set_error(*message, test.field, test.value), HasSubstr(test.error))
        << test.field << "=" << test.value;
  }
  auto message = parsed("grid { links { latency_ns: 1 } }");
  EXPECT_THAT(set_error(*message, "grid.links.1.latency_ns", "4"),
              HasSubstr("an element number from 0 to 0"));
  EXPECT_THAT(set_error(*message, "grid.links.-1.latency_ns", "4"),
              HasSubstr("an element number from 0 to 0"));
  EXPECT_THAT(set_error(*message, "grid.links.0", "4"), HasSubstr("a field inside it"));
}

TEST_F(TextConfig, SetFieldNeverReplacesAChoice) {
  auto message = parsed("ring { size: 5 }");
  EXPECT_THAT(
      set_error(*message, "grid.dimensions", "4"),
      HasSubstr("expected a field of 'ring', the generator in use: 'grid' would replace it"));
  set_field(*message, "ring.size", "6", "--set");
  EXPECT_EQ(message->ShortDebugString(), "ring { size: 6 }");
}

TEST_F(TextConfig, ChecksRangesEverywhere) {
  EXPECT_EQ(range_error(""), "no error");
  EXPECT_EQ(range_error("planes: 256 rate: 0 grid { links { latency_ns: 0.001 } }"), "no error");
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"planes: 0", "t.textproto: planes: got '0', expected an integer from 1 to 256"},
      {"planes: 257", "t.textproto: planes: got '257', expected an integer from 1 to 256"},
      {"rate: -1", "rate: got '-1', expected a number from 0 to 100"},
      {"rate: nan", "rate: got 'nan', expected a number from 0 to 100"},
      {"rate: inf", "rate: got 'inf', expected a number from 0 to 100"},
      {"share: inf", "share: got 'inf', expected a finite number"},
      {"link {}", "link.latency_ns: got 'nothing', expected a number from 0.001 to 1000000000"},
      {"inner { inner { planes: 0 } }", "inner.inner.planes: got '0'"},
      {"grid { dimensions: [1, 2, 0] }",
       "grid.dimensions.2: got '0', expected an integer from 1 to 64"},
      {"grid { links { latency_ns: 1 } links { latency_ns: 2e9 } }",
       "grid.links.1.latency_ns: got '2000000000'"},
  };
  for (const auto& test : cases)
    EXPECT_THAT(range_error(test.text), HasSubstr(test.error)) << test.text;
}

}  // namespace
}  // namespace orrery::emu
