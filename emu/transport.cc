#include "emu/transport.h"

#include <algorithm>

#include "emu/errors.h"
#include "emu/transports/local.h"
#include "emu/transports/mpi.h"
#include "emu/transports/ofi.h"
#include "emu/transports/ucx.h"

namespace orrery::emu {

std::vector<std::string> transport_names() { return {"auto", "local", "ucx", "ofi", "mpi"}; }

std::unique_ptr<Transport> make_transport(const std::string& name, const ProcessGroup& processes) {
  const bool alone = processes.size() == 1;
  if (name == "local" || (name == "auto" && alone)) {
    if (!alone) throw ConfigError("--transport", "", name, "auto, ucx, ofi or mpi under mpirun");
    return std::make_unique<LocalTransport>();
  }
  if (name == "auto" || name == "ucx") return std::make_unique<UcxTransport>(processes);
  if (name == "ofi") return std::make_unique<OfiTransport>(processes);
  if (name == "mpi") {
    if (!processes.uses_mpi()) throw ConfigError("--transport", "", name, "a start by mpirun");
    return std::make_unique<MpiTransport>(processes);
  }
  throw ConfigError("--transport", "", name, "auto, local, ucx, ofi or mpi");
}

}  // namespace orrery::emu
