#include "emu/transports/ofi.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>

#include "emu/errors.h"
#include "emu/transports/landing.h"

namespace orrery::emu {

namespace {

constexpr std::size_t kMaxWrites = 128;
constexpr std::size_t kBounceBytes = 64 * 1024;  // per write under way
constexpr std::uint64_t kLandingKey = 1;
constexpr std::uint64_t kBounceKey = 2;

/// Fastest first. `one_host` providers cannot leave the host.
struct Preference {
  std::string_view provider;
  bool one_host;
};
constexpr Preference kPreferences[] = {
    {"cxi", false}, {"efa", false},     {"psm3", false},          {"psm2", false},
    {"opx", false}, {"shm", true},      {"verbs;ofi_rxm", false}, {"tcp;ofi_rxm", false},
    {"tcp", false}, {"sockets", false}, {"udp;ofi_rxd", false}};

/// Smaller is better; negative: not usable.
int rank_of(const fi_info& info, bool one_host) {
  int place = 0;
  for (const Preference& preference : kPreferences) {
    if (preference.provider == info.fabric_attr->prov_name) {
      if (preference.one_host && !one_host) return -1;
      // The loopback device reaches this host alone, and there it needs no outside network.
      const std::string_view domain =
          info.domain_attr->name == nullptr ? "" : info.domain_attr->name;
      if (domain == "lo" && !one_host) return -1;
      return 2 * place + (one_host && domain != "lo" ? 1 : 0);
    }
    ++place;
  }
  return 2 * place;  // unknown to us, but the library offers it
}

Info hints() {
  Info out(fi_allocinfo());
  out->caps = FI_MSG | FI_RMA;
  out->mode = FI_CONTEXT | FI_CONTEXT2;
  out->ep_attr->type = FI_EP_RDM;
  out->domain_attr->threading = FI_THREAD_DOMAIN;
  out->domain_attr->control_progress = FI_PROGRESS_MANUAL;
  out->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  out->domain_attr->resource_mgmt = FI_RM_ENABLED;
  out->domain_attr->av_type = FI_AV_TABLE;
  out->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  out->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  return out;
}

template <typename T>
bool opened(int code, T* object, Fid<T>& out, const char* call, std::string& reason) {
  if (code == 0) {
    out.reset(object);
    return true;
  }
  reason = std::string(call) + ": " + fi_strerror(-code);
  return false;
}

}  // namespace

OfiTransport::OfiTransport(const ProcessGroup& processes)
    : processes_(processes),
      reduction_(processes),
      idle_(processes.oversubscribed()),
      peers_(static_cast<std::size_t>(processes.size())),
      contexts_(kMaxWrites) {
  for (fi_context2& context : contexts_) free_contexts_.push_back(&context);
  const Info wanted = hints();
  fi_info* found = nullptr;
  check(fi_getinfo(FI_VERSION(1, 14), nullptr, nullptr, 0, wanted.get(), &found), "fi_getinfo");
  const Info all(found);
  const bool one_host = processes.local_size() == processes.size();
  std::vector<const fi_info*> candidates;
  for (const fi_info* info = all.get(); info != nullptr; info = info->next) {
    if (rank_of(*info, one_host) >= 0) candidates.push_back(info);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](const fi_info* a, const fi_info* b) {
    return rank_of(*a, one_host) < rank_of(*b, one_host);
  });
  std::string reason = "no provider with RMA between these processes";
  const bool started = std::any_of(candidates.begin(), candidates.end(),
                                   [&](const fi_info* info) { return open(*info, reason); });
  if (!started) processes_.fail("libfabric: " + reason);
  max_write_bytes_ = info_->ep_attr->max_msg_size;
}

OfiTransport::~OfiTransport() {
  if (processes_.failed() || std::uncaught_exceptions() > 0) {
    // Closing an endpoint may wait for a peer that is gone: leave all to the end of the process.
    // The landing memory stays with it, since peers may still write.
    for (fid_mr* region : {bounce_region_.release(), landing_region_.release()}) (void)region;
    (void)endpoint_.release();
    (void)completions_.release();
    (void)addresses_.release();
    (void)domain_.release();
    (void)fabric_.release();
    new MappedMemory(std::move(memory_));
    new MappedMemory(std::move(bounce_));
    return;
  }
  try {
    flush();
    // Peers may still need this process's progress for their last flush.
    std::int64_t none = 0;
    reduce_min({&none, 1});
  } catch (const TransportError&) {
    // fail() has marked the group; nothing waits any more.
  }
}

bool OfiTransport::open(const fi_info& candidate, std::string& reason) {
  Fid<fid_fabric> fabric;
  Fid<fid_domain> domain;
  Fid<fid_av> addresses;
  Fid<fid_cq> completions;
  Fid<fid_ep> endpoint;
  Info info(fi_dupinfo(&candidate));

  fid_fabric* new_fabric = nullptr;
  int code = fi_fabric(info->fabric_attr, &new_fabric, nullptr);
  if (!opened(code, new_fabric, fabric, "fi_fabric", reason)) return false;
  fid_domain* new_domain = nullptr;
  code = fi_domain(fabric.get(), info.get(), &new_domain, nullptr);
  if (!opened(code, new_domain, domain, "fi_domain", reason)) return false;
  fi_av_attr av_attributes{};
  av_attributes.type = FI_AV_TABLE;
  av_attributes.count = peers_.size();
  fid_av* new_addresses = nullptr;
  code = fi_av_open(domain.get(), &av_attributes, &new_addresses, nullptr);
  if (!opened(code, new_addresses, addresses, "fi_av_open", reason)) return false;
  fi_cq_attr cq_attributes{};
  cq_attributes.size = 2 * kMaxWrites;
  cq_attributes.format = FI_CQ_FORMAT_CONTEXT;
  fid_cq* new_completions = nullptr;
  code = fi_cq_open(domain.get(), &cq_attributes, &new_completions, nullptr);
  if (!opened(code, new_completions, completions, "fi_cq_open", reason)) return false;
  fid_ep* new_endpoint = nullptr;
  code = fi_endpoint(domain.get(), info.get(), &new_endpoint, nullptr);
  if (!opened(code, new_endpoint, endpoint, "fi_endpoint", reason)) return false;
  code = fi_ep_bind(endpoint.get(), &addresses->fid, 0);
  if (code == 0) code = fi_ep_bind(endpoint.get(), &completions->fid, FI_TRANSMIT | FI_RECV);
  if (code == 0) code = fi_enable(endpoint.get());
  if (code != 0) {
    reason = std::string("fi_enable: ") + fi_strerror(-code);
    return false;
  }
  info_ = std::move(info);
  fabric_ = std::move(fabric);
  domain_ = std::move(domain);
  addresses_ = std::move(addresses);
  completions_ = std::move(completions);
  endpoint_ = std::move(endpoint);
  return true;
}

Fid<fid_mr> OfiTransport::register_memory(std::span<std::byte> bytes, std::uint64_t access,
                                          std::uint64_t key) {
  fid_mr* region = nullptr;
  check(fi_mr_reg(domain_.get(), bytes.data(), bytes.size(), access, 0, key, 0, &region, nullptr),
        "fi_mr_reg");
  Fid<fid_mr> out(region);
  if ((info_->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) {
    check(fi_mr_bind(region, &endpoint_->fid, 0), "fi_mr_bind");
    check(fi_mr_enable(region), "fi_mr_enable");
  }
  return out;
}

std::span<std::byte> OfiTransport::expose(std::size_t bytes) {
  const int mr_mode = info_->domain_attr->mr_mode;
  memory_ = MappedMemory(std::max<std::size_t>(bytes, 1));
  landing_region_ = register_memory(memory_.bytes(), FI_REMOTE_WRITE, kLandingKey);
  if ((mr_mode & FI_MR_LOCAL) != 0) {
    bounce_ = MappedMemory(kMaxWrites * kBounceBytes);
    bounce_region_ = register_memory(bounce_.bytes(), FI_WRITE, kBounceKey);
    max_write_bytes_ = std::min(max_write_bytes_, kBounceBytes);
  }

  std::vector<std::byte> address(256);
  std::size_t address_bytes = address.size();
  check(fi_getname(&endpoint_->fid, address.data(), &address_bytes), "fi_getname");
  address.resize(address_bytes);
  const auto addresses = processes_.all_gather(address);
  const std::string_view provider = info_->fabric_attr->prov_name;
  for (const auto& other : processes_.all_gather(std::as_bytes(std::span(provider)))) {
    const std::string_view theirs(reinterpret_cast<const char*>(other.data()), other.size());
    if (theirs != provider) {
      processes_.fail("libfabric: processes picked different providers, " + std::string(provider) +
                      " and " + std::string(theirs) + "; set FI_PROVIDER");
    }
  }
  Peer mine;
  mine.landing_base = (mr_mode & FI_MR_VIRT_ADDR) != 0
                          ? reinterpret_cast<std::uint64_t>(memory_.bytes().data())
                          : 0;
  mine.landing_bytes = bytes;
  mine.key = fi_mr_key(landing_region_.get());
  const auto landings = processes_.all_gather(std::as_bytes(std::span(&mine, 1)));
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    std::memcpy(&peers_[i], landings[i].data(), sizeof(Peer));
    if (fi_av_insert(addresses_.get(), addresses[i].data(), 1, &peers_[i].address, 0, nullptr) !=
        1) {
      processes_.fail("fi_av_insert refused the address of process " + std::to_string(i));
    }
  }
  return memory_.bytes().first(bytes);
}

void OfiTransport::put(int to, std::uint64_t offset, std::span<const std::byte> bytes) {
  const Peer& peer = peers_.at(static_cast<std::size_t>(to));
  check_put(to, offset, bytes.size(), peer.landing_bytes);
  if (to == processes_.rank()) {
    if (!bytes.empty()) std::memcpy(memory_.bytes().data() + offset, bytes.data(), bytes.size());
    return;
  }
  for (std::size_t at = 0; at < bytes.size(); at += max_write_bytes_) {
    write(peer, offset + at, bytes.subspan(at, std::min(max_write_bytes_, bytes.size() - at)));
  }
}

void OfiTransport::write(const Peer& peer, std::uint64_t offset, std::span<const std::byte> bytes) {
  idle_.reset();
  while (free_contexts_.empty()) {
    progress();
    idle_.pause();
  }
  fi_context2* context = free_contexts_.back();
  free_contexts_.pop_back();
  const std::byte* source = bytes.data();
  void* descriptor = nullptr;
  if (bounce_region_ != nullptr) {
    std::byte* slot = bounce_.bytes().data() + (context - contexts_.data()) * kBounceBytes;
    std::memcpy(slot, source, bytes.size());
    source = slot;
    descriptor = fi_mr_desc(bounce_region_.get());
  }
  while (true) {
    const auto code = fi_write(endpoint_.get(), source, bytes.size(), descriptor, peer.address,
                               peer.landing_base + offset, peer.key, context);
    if (code == 0) return;
    if (code != -FI_EAGAIN) check(code, "fi_write");
    progress();
    idle_.pause();
  }
}

void OfiTransport::flush() {
  idle_.reset();
  while (free_contexts_.size() < contexts_.size()) {
    progress();
    idle_.pause();
  }
}

void OfiTransport::progress() {
  fi_cq_entry entries[16];
  const auto count = fi_cq_read(completions_.get(), entries, std::size(entries));
  if (count > 0) {
    for (const fi_cq_entry& entry : std::span(entries, static_cast<std::size_t>(count))) {
      free_contexts_.push_back(static_cast<fi_context2*>(entry.op_context));
    }
  } else if (count == -FI_EAVAIL) {
    fi_cq_err_entry error{};
    fi_cq_readerr(completions_.get(), &error, 0);
    processes_.fail(std::string("libfabric write: ") + fi_strerror(error.err));
  } else if (count != -FI_EAGAIN) {
    check(count, "fi_cq_read");
  }
}

bool OfiTransport::test_min(std::span<std::int64_t> values) {
  progress();
  return reduction_.test(values);
}

void OfiTransport::check(std::int64_t code, const char* call) const {
  if (code < 0) processes_.fail(std::string(call) + ": " + fi_strerror(static_cast<int>(-code)));
}

}  // namespace orrery::emu
