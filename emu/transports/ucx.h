// UCX: ucp_put_nbx into landing memory that UCX allocates, so that processes of one host reach it
// by plain stores (posix or sysv segments) and other hosts by RDMA or, over TCP, by UCX's software
// emulation.
//
// Endpoints have no peer error handling: UCX then refuses shared memory (it would send between two
// processes of one host over TCP) and emulates puts over TCP several times slower. A lost process
// is the launcher's to notice; a put that fails is a TransportError all the same.
#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <vector>

#include "emu/transport.h"
#include "emu/transports/min_reduction.h"

namespace orrery::emu {

class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(const ProcessGroup& processes);
  ~UcxTransport() override;

  std::string name() const override { return "ucx"; }
  std::span<std::byte> expose(std::size_t bytes) override;
  void put(int to, std::uint64_t offset, std::span<const std::byte> bytes) override;
  void flush() override;
  void progress() override;
  void start_min(std::span<const std::int64_t> values) override { reduction_.start(values); }
  bool test_min(std::span<std::int64_t> values) override;

 private:
  /// What a process told all others, and the way to it once it is first used.
  struct Peer {
    std::uint64_t landing_base = 0;
    std::uint64_t landing_bytes = 0;
    std::vector<std::byte> address;
    std::vector<std::byte> packed_key;
    ucp_ep_h endpoint = nullptr;
    ucp_rkey_h key = nullptr;
  };

  void connect(Peer& peer);
  void close();
  void check(ucs_status_t status, const char* call);
  void wait(ucs_status_ptr_t request, const char* call);
  static void on_put(void* request, ucs_status_t status, void* self);

  const ProcessGroup& processes_;
  MinReduction reduction_;
  Idle idle_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_mem_h memory_ = nullptr;
  std::span<std::byte> landing_;
  std::vector<Peer> peers_;
  ucs_status_t put_status_ = UCS_OK;
  bool unflushed_ = false;
};

}  // namespace orrery::emu
