#include <iterator>

#include "litmus/program.h"

namespace orrery::litmus {

const std::vector<Program>& programs() {
  static const std::vector<Program> all = [] {
    std::vector<Program> joined;
    for (auto* family : {message_passing, counts, blocks, same_address, reading_back}) {
      std::vector<Program> part = family();
      joined.insert(joined.end(), std::make_move_iterator(part.begin()),
                    std::make_move_iterator(part.end()));
    }
    return joined;
  }();
  return all;
}

}  // namespace orrery::litmus
