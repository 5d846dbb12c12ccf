// A MoE layer cut in parts: while the experts multiply one part, the next one is on its way to them
// and the outputs of the one before are on their way back.
//
//   begin()     all cores: rows lie at staged(), by expert and place, and their places are known
//   pipeline    communication cores send all parts, then send each back when it is computed; the
//               others wait for each part, multiply it and tell them. One part: three kernels of
//               all cores, one after the other
//   decode      all cores: a token's rows are added in ascending k
//
// A part has rows of lists: a list is what one device sends to one expert. What a part holds is the
// algorithm's; both ends of a list must say the same.
//
// Communication takes cores from the products: theirs are the matrix units of those that are left.
//
// Buffers are single: a device sends rows of the next call when every device has sent it all parts
// of this one back, and they come back when it has sent them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "moe/algorithms/comm_cores.h"
#include "moe/algorithms/team_meeting.h"
#include "moe/fused_layer.h"

namespace orrery::moe {

class PipelinedLayer : public FusedLayer {
 public:
  // A fence stands between rows and the flag that tells of them.
  Contract contract() const override { return {Contract::Order::kNone, 8}; }
  std::uint64_t touched_bytes(std::uint32_t device) const override;

 protected:
  using Core = devices::Core;
  using Address = fabric::Address;

  struct Plan {
    std::uint32_t parts;
    std::uint32_t list_rows;        // at most, padding included
    std::uint32_t row_bytes;        // of a row on its way to an expert; a payload at least
    std::uint64_t padded_rows = 0;  // that a device sends or takes and that are not counted as rows
  };
  /// Throws ConfigError if several parts leave either kind of core without any.
  PipelinedLayer(const Problem& problem, const Options& options, Plan plan);
  /// `parts_name` (default `parts`) and `comm_cores`.
  static std::vector<OptionSpec> pipeline_options(const std::string& parts_name, const char* parts,
                                                  const char* help);

  // --- What the algorithm says ---
  /// All cores; ends anywhere in a kernel.
  virtual emu::Task begin(Core& core, std::uint32_t iteration) = 0;
  /// Whether this part has lists of the source for the owner: only then either tells the other.
  virtual bool meets(std::uint32_t source, std::uint32_t owner, std::uint32_t part) const = 0;
  /// Places of a list in this part, padding included. For one of this device's lists, either way.
  virtual Share places(Core& core, std::uint32_t source, std::uint32_t expert,
                       std::uint32_t part) = 0;
  /// Of a row that came to this device and is complete: which of its source's rows for the expert
  /// it is, or none if it is padding.
  virtual std::optional<std::uint32_t> index_of(Core& core, Address row, std::uint32_t place) = 0;
  /// Where the token's k-th choice, which is not masked, is in its list; none if it was dropped.
  virtual std::optional<std::uint32_t> place_of(Core& core, std::uint32_t entry) = 0;
  /// Of this device's list for an expert: places that hold padding.
  virtual Share padding(Core&, std::uint32_t /*expert*/) { return {0, 0}; }

  /// At the origin, what is sent to an expert.
  Address staged(std::uint32_t expert, std::uint32_t place) const {
    return row_at(staged_, expert, place);
  }
  std::uint32_t parts() const { return plan_.parts; }
  std::uint32_t list_rows() const { return plan_.list_rows; }
  bool is_sequential() const { return plan_.parts == 1; }

 private:
  enum Meeting : std::uint32_t { kUpDone, kDownDone, kMeetings };
  enum Direction : std::uint32_t { kOut, kBack, kDirections };
  /// A row of a list on its way.
  struct Sent {
    devices::PutHandle handle;
    std::vector<devices::Piece> pieces;
  };

  CoreTeam comm() const { return cores_.comm(); }
  CoreTeam compute() const { return cores_.compute(); }
  Address row_at(Address region, std::uint32_t list, std::uint32_t place) const {
    return region + (std::uint64_t{list} * plan_.list_rows + place) * row_stride();
  }
  // At the owner.
  std::uint32_t list_of(std::uint32_t local, std::uint32_t source) const {
    return local * problem_.devices + source;
  }
  Address flag(Direction direction, std::uint32_t part, std::uint32_t peer,
               std::uint32_t channel) const {
    const std::uint64_t block = std::uint64_t{direction} * plan_.parts + part;
    return flags_ + ((block * problem_.devices + peer) * channels_ + channel) * 4;
  }

  emu::Task layer(Core& core, std::uint32_t iteration) override;
  emu::Task communicate(Core& core, std::uint32_t call);
  emu::Task multiply(Core& core, std::uint32_t iteration);
  emu::Task send(Core& core, Direction direction, std::uint32_t part, std::uint32_t call,
                 std::vector<Sent>& sent);
  std::vector<devices::Piece> pieces(Core& core, Direction direction, std::uint32_t part,
                                     std::uint32_t peer);
  emu::Task give_up(Core& core, std::vector<Sent> sent) const;
  emu::Task wait_flags(Core& core, Direction direction, std::uint32_t part, std::uint32_t call);
  void take_rows(Core& core, std::uint32_t part);
  std::vector<GemmGroup> products(Core& core, std::uint32_t iteration, std::uint32_t part, bool up);
  emu::Task run_part(Core& core, std::uint32_t iteration, std::uint32_t part);
  emu::Task decode(Core& core, std::uint32_t iteration);

  const Plan plan_;
  const CommCores cores_;
  const std::uint32_t channels_;  // between two devices, of a part
  const TeamMeeting meetings_;
  Address staged_;    // by expert: rows of this device
  Address taken_;     // by list: rows for its experts
  Address outputs_;   // by list
  Address returned_;  // by expert: outputs of this device's rows
  Address flags_;     // uint32 [direction][part][device][channel]: a call
};

}  // namespace orrery::moe
