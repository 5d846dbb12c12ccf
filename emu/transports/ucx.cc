#include "emu/transports/ucx.h"

#include <cstring>
#include <exception>

#include "emu/errors.h"
#include "emu/transports/landing.h"

namespace orrery::emu {

namespace {

struct BlobHeader {
  std::uint64_t landing_base;
  std::uint64_t landing_bytes;
  std::uint64_t address_bytes;
  std::uint64_t key_bytes;
};

void append(std::vector<std::byte>& blob, const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  blob.insert(blob.end(), first, first + bytes);
}

}  // namespace

UcxTransport::UcxTransport(const ProcessGroup& processes)
    : processes_(processes),
      reduction_(processes),
      idle_(processes.oversubscribed()),
      peers_(static_cast<std::size_t>(processes.size())) {
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  parameters.features = UCP_FEATURE_RMA;
  parameters.estimated_num_eps = peers_.size();
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  const ucs_status_t status = ucp_init(&parameters, config, &context_);
  ucp_config_release(config);
  check(status, "ucp_init");
  ucp_worker_params_t worker_parameters{};
  worker_parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_parameters.thread_mode = UCS_THREAD_MODE_SINGLE;
  check(ucp_worker_create(context_, &worker_parameters, &worker_), "ucp_worker_create");
}

UcxTransport::~UcxTransport() {
  // After a failure, endpoints may wait for a peer that is gone: leave them to the end of the
  // process.
  if (processes_.failed() || std::uncaught_exceptions() > 0) return;
  try {
    close();
  } catch (const TransportError&) {
    // fail() has marked the group; nothing waits any more.
  }
}

void UcxTransport::close() {
  // Peers may still need this process's progress for their last flush.
  flush();
  std::int64_t none = 0;
  reduce_min({&none, 1});
  std::vector<void*> closing;
  for (Peer& peer : peers_) {
    if (peer.key != nullptr) ucp_rkey_destroy(peer.key);
    if (peer.endpoint == nullptr) continue;
    const ucp_request_param_t parameters{};
    void* request = ucp_ep_close_nbx(peer.endpoint, &parameters);
    if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
  }
  for (void* request : closing) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker_);
    ucp_request_free(request);
  }
  reduce_min({&none, 1});
  if (memory_ != nullptr) ucp_mem_unmap(context_, memory_);
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

std::span<std::byte> UcxTransport::expose(std::size_t bytes) {
  ucp_mem_map_params_t parameters{};
  parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  parameters.length = bytes == 0 ? 1 : bytes;
  parameters.flags = UCP_MEM_MAP_ALLOCATE;
  check(ucp_mem_map(context_, &parameters, &memory_), "ucp_mem_map");
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  check(ucp_mem_query(memory_, &attributes), "ucp_mem_query");
  landing_ = {static_cast<std::byte*>(attributes.address), bytes};

  ucp_address_t* address = nullptr;
  std::size_t address_bytes = 0;
  check(ucp_worker_get_address(worker_, &address, &address_bytes), "ucp_worker_get_address");
  void* key = nullptr;
  std::size_t key_bytes = 0;
  check(ucp_rkey_pack(context_, memory_, &key, &key_bytes), "ucp_rkey_pack");
  const BlobHeader mine{reinterpret_cast<std::uint64_t>(landing_.data()), bytes, address_bytes,
                        key_bytes};
  std::vector<std::byte> blob;
  append(blob, &mine, sizeof(mine));
  append(blob, address, address_bytes);
  append(blob, key, key_bytes);
  ucp_rkey_buffer_release(key);
  ucp_worker_release_address(worker_, address);

  const auto blobs = processes_.all_gather(blob);
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    BlobHeader header;
    std::memcpy(&header, blobs[i].data(), sizeof(header));
    const auto address_at = blobs[i].begin() + sizeof(header);
    const auto key_at = address_at + static_cast<std::ptrdiff_t>(header.address_bytes);
    peers_[i].landing_base = header.landing_base;
    peers_[i].landing_bytes = header.landing_bytes;
    peers_[i].address.assign(address_at, key_at);
    peers_[i].packed_key.assign(key_at, blobs[i].end());
  }
  return landing_;
}

void UcxTransport::connect(Peer& peer) {
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  parameters.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  check(ucp_ep_create(worker_, &parameters, &peer.endpoint), "ucp_ep_create");
  check(ucp_ep_rkey_unpack(peer.endpoint, peer.packed_key.data(), &peer.key), "ucp_ep_rkey_unpack");
}

void UcxTransport::put(int to, std::uint64_t offset, std::span<const std::byte> bytes) {
  Peer& peer = peers_.at(static_cast<std::size_t>(to));
  check_put(to, offset, bytes.size(), peer.landing_bytes);
  if (bytes.empty()) return;
  if (to == processes_.rank()) {
    std::memcpy(landing_.data() + offset, bytes.data(), bytes.size());
    return;
  }
  if (peer.endpoint == nullptr) connect(peer);
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.send = &UcxTransport::on_put;
  parameters.user_data = this;
  const ucs_status_ptr_t request = ucp_put_nbx(peer.endpoint, bytes.data(), bytes.size(),
                                               peer.landing_base + offset, peer.key, &parameters);
  if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), "ucp_put_nbx");
  unflushed_ = true;
}

void UcxTransport::on_put(void* request, ucs_status_t status, void* self) {
  if (status != UCS_OK) static_cast<UcxTransport*>(self)->put_status_ = status;
  ucp_request_free(request);
}

void UcxTransport::flush() {
  if (!unflushed_) return;
  const ucp_request_param_t parameters{};
  wait(ucp_worker_flush_nbx(worker_, &parameters), "ucp_worker_flush_nbx");
  check(put_status_, "ucp_put_nbx");
  unflushed_ = false;
}

void UcxTransport::progress() {
  ucp_worker_progress(worker_);
  if (put_status_ != UCS_OK) check(put_status_, "ucp_put_nbx");
}

bool UcxTransport::test_min(std::span<std::int64_t> values) {
  progress();
  return reduction_.test(values);
}

void UcxTransport::check(ucs_status_t status, const char* call) {
  if (status != UCS_OK) processes_.fail(std::string(call) + ": " + ucs_status_string(status));
}

void UcxTransport::wait(ucs_status_ptr_t request, const char* call) {
  if (request == nullptr) return;
  if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), call);
  idle_.reset();
  ucs_status_t status = ucp_request_check_status(request);
  while (status == UCS_INPROGRESS) {
    if (ucp_worker_progress(worker_) == 0) idle_.pause();
    status = ucp_request_check_status(request);
  }
  ucp_request_free(request);
  check(status, call);
}

}  // namespace orrery::emu
