// A group's handle in MPI, and MPI calls whose failure is a TransportError.
#pragma once

#include <mpi.h>

#include <string>

#include "emu/process_group.h"

namespace orrery::emu {

struct Communicator {
  MPI_Comm handle = MPI_COMM_NULL;
};

/// The communicator of a group that uses MPI.
inline MPI_Comm comm_of(const ProcessGroup& processes) { return processes.communicator()->handle; }

/// Throws TransportError (through processes.fail) unless `code` is MPI_SUCCESS; `call` names the
/// call.
inline void check_mpi(const ProcessGroup& processes, int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  processes.fail(std::string(call) + ": " + std::string(text, static_cast<std::size_t>(length)));
}

}  // namespace orrery::emu
