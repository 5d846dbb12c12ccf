// Text protobuf files and --set paths, with errors a user can act on: one line that names file,
// field, value and expectation (design section 11). Survives any bytes.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

namespace orrery::emu {

/// Parses the text protobuf file at `path` into `message` (cleared first). Throws ConfigError for a
/// missing or unreadable file, a directory, a file above 64 MiB, a syntax error or an unknown field
/// (with line).
void load_text_file(const std::string& path, google::protobuf::Message& message);

/// The same for text in memory; `name` stands for the file in errors.
void parse_text(const std::string& text, const std::string& name,
                google::protobuf::Message& message);

/// Sets the scalar or enum at dotted `field` (e.g. "fabric.atomic_block_bytes",
/// "fabric.clos.planes", repeated elements as "fabric.full_mesh.links.0.latency_ns") to `value` as
/// typed. A list of scalars is set as a whole by values with commas between them, or emptied by
/// "none". `where` names the origin in errors (e.g. "--set"). An unknown field's error lists the
/// known ones; a wrong value's error the type, range or enum names. Enum names are taken in any
/// case.
void set_field(google::protobuf::Message& message, const std::string& field,
               const std::string& value, const std::string& where);

/// Checks every set field's (range) and every (needed) field of set messages, recursively; numbers
/// must be finite. `where` names the file in errors.
void check_ranges(const google::protobuf::Message& message, const std::string& where);

}  // namespace orrery::emu
