#include "devices/check_log.h"

namespace orrery::devices {

const char* to_string(Verb verb) {
  switch (verb) {
    case Verb::kHost:
      return "the host's input";
    case Verb::kLoad:
      return "load";
    case Verb::kArray:
      return "array";
    case Verb::kConsume:
      return "consume";
    case Verb::kAccept:
      return "accept";
    case Verb::kWrite:
      return "write";
    case Verb::kCopy:
      return "copy";
    case Verb::kMove:
      return "move";
    case Verb::kPut:
      return "put";
    case Verb::kGive:
      return "give";
    case Verb::kStore:
      return "store";
    case Verb::kPutSignal:
      return "put_signal";
    case Verb::kPutSignalAdd:
    case Verb::kGiveSignalAdd:
      return "put_signal_add";
    case Verb::kFetchAdd:
      return "fetch_add";
    case Verb::kRemoteFetchAdd:
      return "remote_fetch_add";
    case Verb::kAtomicAdd:
      return "atomic_add";
    case Verb::kGet:
      return "get";
    case Verb::kWait:
      return "wait_until";
    case Verb::kDiscard:
      return "discard";
    case Verb::kRow:
      return "row";
  }
  return "?";
}

}  // namespace orrery::devices
