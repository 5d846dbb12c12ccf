// libfabric: RMA writes with delivery complete, for clusters whose network UCX does not speak
// (Slingshot, EFA) and, over tcp or shared memory, for any host. FI_PROVIDER picks a provider; else
// the fastest that starts.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <memory>
#include <string>
#include <vector>

#include "emu/transport.h"
#include "emu/transports/mapped_memory.h"
#include "emu/transports/min_reduction.h"

namespace orrery::emu {

/// libfabric's objects are all closed by the same call.
struct FidCloser {
  template <typename T>
  void operator()(T* object) const {
    fi_close(&object->fid);
  }
};
template <typename T>
using Fid = std::unique_ptr<T, FidCloser>;

struct InfoFreer {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoFreer>;

class OfiTransport final : public Transport {
 public:
  explicit OfiTransport(const ProcessGroup& processes);
  ~OfiTransport() override;

  std::string name() const override { return "ofi"; }
  std::span<std::byte> expose(std::size_t bytes) override;
  void put(int to, std::uint64_t offset, std::span<const std::byte> bytes) override;
  void flush() override;
  void progress() override;
  void start_min(std::span<const std::int64_t> values) override { reduction_.start(values); }
  bool test_min(std::span<std::int64_t> values) override;

 private:
  struct Peer {
    std::uint64_t landing_base = 0;  // 0 where the provider counts from the region's start
    std::uint64_t landing_bytes = 0;
    std::uint64_t key = 0;
    fi_addr_t address = FI_ADDR_UNSPEC;
  };

  bool open(const fi_info& candidate, std::string& reason);
  void check(std::int64_t code, const char* call) const;
  Fid<fid_mr> register_memory(std::span<std::byte> bytes, std::uint64_t access, std::uint64_t key);
  void write(const Peer& peer, std::uint64_t offset, std::span<const std::byte> bytes);

  const ProcessGroup& processes_;
  MinReduction reduction_;
  Idle idle_;
  // Declared from the outermost object inwards: destroyed in the reverse order, as libfabric
  // demands.
  Info info_;
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  Fid<fid_av> addresses_;
  Fid<fid_cq> completions_;
  MappedMemory memory_;
  MappedMemory bounce_;  // where the provider wants registered sources (FI_MR_LOCAL)
  Fid<fid_ep> endpoint_;
  Fid<fid_mr> landing_region_;
  Fid<fid_mr> bounce_region_;
  std::vector<Peer> peers_;
  std::size_t max_write_bytes_ = 0;
  /// One per write under way; some providers keep their own state in it.
  std::vector<fi_context2> contexts_;
  std::vector<fi_context2*> free_contexts_;
};

}  // namespace orrery::emu
