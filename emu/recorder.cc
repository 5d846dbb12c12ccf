#include "emu/recorder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

namespace orrery::emu {

namespace {

// What one logical process sends to process 0, before its lists.
struct Header {
  LpId lp;
  std::uint32_t names;
  std::uint64_t spans;
  std::uint64_t flows;
  std::uint64_t profiles;
  Time cut;
  Time incomplete;
  std::uint64_t spans_left_out;
  std::uint64_t flows_left_out;
  std::uint64_t flows_elsewhere;
};

class Writer {
 public:
  template <typename T>
  void put(const T* values, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (count == 0) return;
    const std::size_t at = bytes_.size();
    bytes_.resize(at + count * sizeof(T));
    std::memcpy(&bytes_[at], values, count * sizeof(T));
  }
  template <typename T>
  void put(const T& value) {
    put(&value, 1);
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool at_end() const { return bytes_.empty(); }
  template <typename T>
  void take(T* values, std::size_t count) {
    if (count == 0) return;
    std::memcpy(values, bytes_.data(), count * sizeof(T));
    bytes_ = bytes_.subspan(count * sizeof(T));
  }
  template <typename T>
  T take() {
    T value;
    take(&value, 1);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

void put_text(Writer& writer, const std::string& text) {
  writer.put(static_cast<std::uint32_t>(text.size()));
  writer.put(text.data(), text.size());
}

std::string take_text(Reader& reader) {
  std::string text(reader.take<std::uint32_t>(), '\0');
  reader.take(text.data(), text.size());
  return text;
}

}  // namespace

Recorder::Recorder(const RecordLimits& limits, LpId lps, std::uint32_t link_classes)
    : limits_(limits),
      link_classes_(link_classes),
      share_(limits.max_events / std::max<std::size_t>(limits.lps.size(), 1)),
      max_messages_(share_ / 2 / kEventsPerMessage),
      histories_(lps) {
  for (const LpId lp : limits_.lps) histories_[lp].recorded = true;
}

std::uint32_t Recorder::name_index(History& history, std::string_view name) {
  const auto it = std::find(history.names.begin(), history.names.end(), name);
  const auto index = static_cast<std::uint32_t>(it - history.names.begin());
  if (it == history.names.end()) history.names.emplace_back(name);
  return index;
}

// If not all spans fit, those that start before some time do, and all later ones are left out.
void Recorder::on_spans(LpId lp, std::span<const TraceSpan> spans) {
  History& history = histories_[lp];
  if (!history.recorded) return;
  std::vector<Time> starts;
  for (const TraceSpan& span : spans) {
    if (span.start < limits_.to && span.end > limits_.from) starts.push_back(span.start);
  }
  if (!history.full) {
    const std::uint64_t used = history.span_events + history.messages.size() * kEventsPerMessage;
    const std::uint64_t room = share_ > used ? (share_ - used) / kEventsPerSpan : 0;
    if (starts.size() > room) {
      const auto first_out = starts.begin() + static_cast<std::ptrdiff_t>(room);
      std::nth_element(starts.begin(), first_out, starts.end());
      history.full = true;
      history.cut = *first_out;
      history.incomplete = std::min(history.incomplete, history.cut);
    }
  }
  for (const TraceSpan& span : spans) {
    if (span.start >= limits_.to || span.end <= limits_.from) continue;
    if (history.full && span.start >= history.cut) {
      ++history.spans_left_out;
      continue;
    }
    history.span_events += kEventsPerSpan;
    history.spans.push_back({lp, span.track, span.level, span.iteration,
                             name_index(history, span.name), span.start, span.end});
  }
}

void Recorder::on_message(LpId lp, const TraceOrigin& origin, std::uint64_t bytes, Time visible) {
  History& history = histories_[lp];
  const bool source_recorded = histories_[origin.lp].recorded;
  if (!history.recorded && !source_recorded) return;
  if (origin.issued < limits_.from || visible > limits_.to) return;
  if (!history.recorded || !source_recorded) {
    ++history.messages_elsewhere;
  } else if (history.messages.size() >= max_messages_) {
    ++history.messages_left_out;
    history.incomplete = std::min(history.incomplete, visible);
  } else {
    history.messages.push_back({origin, bytes, visible});
  }
}

void Recorder::on_wait_end(LpId lp, std::uint32_t track, const TraceOrigin& origin, Time visible,
                           Time end) {
  History& history = histories_[lp];
  if (!history.recorded || !histories_[origin.lp].recorded) return;
  if (origin.issued < limits_.from || end > limits_.to) return;
  if (history.waits.size() < max_messages_) history.waits.push_back({origin, visible, end, track});
}

void Recorder::on_busy(LpId lp, std::uint32_t link_class, Time start, Time end) {
  start = std::max(start, limits_.from);
  end = std::min(end, limits_.to);
  if (start >= end) return;
  History& history = histories_[lp];
  if (history.busy.empty()) history.busy.resize(link_classes_);
  history.busy[link_class].add(start - limits_.from, end - limits_.from);
}

// Each message with the first wait that it ended.
std::vector<Recording::Flow> Recorder::join(History& history) {
  std::sort(history.waits.begin(), history.waits.end(), [](const Wait& a, const Wait& b) {
    return std::tie(a.origin, a.end, a.track) < std::tie(b.origin, b.end, b.track);
  });
  std::vector<Recording::Flow> flows;
  flows.reserve(history.messages.size());
  for (const Message& message : history.messages) {
    Recording::Flow flow;
    flow.from = message.origin;
    flow.bytes = message.bytes;
    flow.visible = message.visible;
    const auto wait =
        std::lower_bound(history.waits.begin(), history.waits.end(), message.origin,
                         [](const Wait& a, const TraceOrigin& b) { return a.origin < b; });
    if (wait != history.waits.end() && wait->origin == message.origin) {
      flow.ended_wait = true;
      flow.visible = wait->visible;
      flow.wait_track = wait->track;
      flow.wait_end = wait->end;
    }
    flows.push_back(flow);
  }
  return flows;
}

Recording Recorder::collect(const ProcessGroup& processes) {
  Writer mine;
  for (LpId lp = 0; lp < histories_.size(); ++lp) {
    History& history = histories_[lp];
    const std::vector<Recording::Flow> flows = join(history);
    const bool empty = history.spans.empty() && flows.empty() && history.busy.empty() &&
                       history.spans_left_out == 0 && history.messages_left_out == 0 &&
                       history.messages_elsewhere == 0;
    if (!empty) {
      mine.put(Header{lp, static_cast<std::uint32_t>(history.names.size()), history.spans.size(),
                      flows.size(), history.busy.size(), history.cut, history.incomplete,
                      history.spans_left_out, history.messages_left_out,
                      history.messages_elsewhere});
      for (const std::string& name : history.names) put_text(mine, name);
      mine.put(history.spans.data(), history.spans.size());
      mine.put(flows.data(), flows.size());
      for (const BusyProfile& profile : history.busy) {
        mine.put(profile.width());
        mine.put(static_cast<std::uint64_t>(profile.buckets().size()));
        mine.put(profile.buckets().data(), profile.buckets().size());
      }
    }
    history = History{};
  }

  Recording out;
  out.from = limits_.from;
  out.busy.resize(link_classes_);
  std::map<std::string, std::uint32_t> name_indices;
  std::map<LpId, Time> cuts;
  for (const auto& part : processes.gather(mine.bytes())) {
    Reader reader(part);
    while (!reader.at_end()) {
      const auto header = reader.take<Header>();
      std::vector<std::uint32_t> names;
      for (std::uint32_t i = 0; i < header.names; ++i) {
        const auto [it, is_new] = name_indices.try_emplace(
            take_text(reader), static_cast<std::uint32_t>(name_indices.size()));
        if (is_new) out.names.push_back(it->first);
        names.push_back(it->second);
      }
      for (std::uint64_t i = 0; i < header.spans; ++i) {
        out.spans.push_back(reader.take<Recording::Span>());
        out.spans.back().name = names[out.spans.back().name];
      }
      for (std::uint64_t i = 0; i < header.flows; ++i) {
        out.flows.push_back(reader.take<Recording::Flow>());
        out.flows.back().to = header.lp;
      }
      for (std::uint64_t i = 0; i < header.profiles; ++i) {
        const auto width = reader.take<Time>();
        std::vector<Time> buckets(reader.take<std::uint64_t>());
        reader.take(buckets.data(), buckets.size());
        BusyProfile profile;
        profile.restore(width, std::move(buckets));
        out.busy[i].add(profile);
      }
      out.spans_left_out += header.spans_left_out;
      out.flows_left_out += header.flows_left_out;
      out.flows_elsewhere += header.flows_elsewhere;
      cuts[header.lp] = header.cut;
      if (header.incomplete < out.complete_until ||
          (header.incomplete == out.complete_until && header.lp < out.first_full)) {
        out.complete_until = header.incomplete;
        out.first_full = header.lp;
      }
    }
  }
  // An arrow needs a span at each end.
  const auto cut_of = [&cuts](LpId lp) { return cuts.contains(lp) ? cuts.at(lp) : kNever; };
  const std::size_t before = out.flows.size();
  std::erase_if(out.flows, [&](const Recording::Flow& flow) {
    return flow.from.issued >= cut_of(flow.from.lp) ||
           std::max(flow.visible, flow.wait_end) > cut_of(flow.to);
  });
  out.flows_left_out += before - out.flows.size();
  out.sort();
  return out;
}

}  // namespace orrery::emu
