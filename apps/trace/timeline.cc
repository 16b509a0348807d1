#include "apps/trace/timeline.h"

#include "apps/trace/records.h"
#include "runtime/core/routes.h"

#include <algorithm>
#include <map>
#include <string>

namespace troupe {
namespace {

// Processes of the timeline, in the order they are shown.
constexpr int kActors = 1;
constexpr int kTransfers = 2;
constexpr int kEngine = 3;
constexpr int kRequests = 4;
constexpr const char* kProcessNames[] = {"", "actors", "transfers", "engine", "requests"};
constexpr const char* kTierNames[] = {"device", "host", "disk", "remote"};

/// Delivery times of each lane: ticks, made ascending by a nanosecond where several are equal.
class LaneTimes {
 public:
  void add(Address actor, uint64_t seq, int64_t tick) {
    std::vector<int64_t>& times = times_[actor.v];
    if (times.size() < seq) {
      times.resize(seq, times.empty() ? 0 : times.back());
    }
    times[seq - 1] = seq < 2 ? tick : std::max(tick, times[seq - 2] + 1);
  }
  /// Time of a delivery, or -1 when it was not recorded.
  int64_t find(Address actor, uint64_t seq) const {
    const auto found = times_.find(actor.v);
    return found == times_.end() || seq == 0 || seq > found->second.size() ? -1
                                                                           : found->second[seq - 1];
  }

 private:
  std::map<uint16_t, std::vector<int64_t>> times_;
};

class Timeline {
 public:
  Timeline(const std::vector<trace::LaneFiles>& lanes, std::FILE* out) : lanes_(lanes), out_(out) {}

  std::vector<std::string> write() {
    std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out_);
    for (int process = kActors; process <= kRequests; ++process) {
      name("process_name", process, 0, kProcessNames[process]);
    }
    for (const trace::LaneFiles& files : lanes_) {
      name("thread_name", kActors, files.info.address.v, files.info.actor);
    }
    name("thread_name", kEngine, 0, "steps");
    (void)walk_records(lanes_, {}, [&](const Delivered& d) {
      times_.add(d.lane->address, d.seq, d.header.tick.ns);
      return true;
    });
    auto notices = walk_records(lanes_, {}, [&](const Delivered& d) {
      delivery(d);
      if (d.has_payload) {
        FrameReader reader(d.payload);
        inside(d, reader.message());
      }
      return std::ferror(out_) == 0;
    });
    std::fputs("\n]}\n", out_);
    return notices;
  }

 private:
  /// Begins an event; the caller adds further fields and the closing brace.
  void begin(const char* phase, int process, int thread, int64_t ns) {
    std::fprintf(out_, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%03lld",
                 first_ ? "" : ",\n", phase, process, thread, static_cast<long long>(ns / 1000),
                 static_cast<long long>(ns % 1000));
    first_ = false;
  }
  /// `text` is an actor's name out of a lane's header, so it may hold anything.
  void name(const char* what, int process, int thread, const std::string& text) {
    begin("M", process, thread, 0);
    std::fprintf(out_, ",\"name\":\"%s\",\"args\":{\"name\":\"", what);
    for (const char c : text) {
      std::fputc(c >= ' ' && c != '"' && c != '\\' && c != 127 ? c : '?', out_);
    }
    std::fputs("\"}}", out_);
  }
  void delivery(const Delivered& d) {
    const int64_t at = times_.find(d.lane->address, d.seq);
    const int track = d.lane->address.v;
    const std::string kind = kind_name(d.header.kind);
    begin("X", kActors, track, at);
    std::fprintf(out_,
                 ",\"dur\":0.001,\"name\":\"%s\",\"args\":{\"delivery\":%llu,\"from\":%u,"
                 "\"from_seq\":%llu,\"bytes\":%zu}}",
                 kind.c_str(), static_cast<unsigned long long>(d.seq), d.header.from.v,
                 static_cast<unsigned long long>(d.header.seq), d.payload.size_bytes());
    const int64_t sent = times_.find(d.header.from, d.header.cause);
    if (sent < 0) {
      return;  // it came from outside: no step led to it
    }
    const unsigned long long id =
        (static_cast<unsigned long long>(d.header.from.v) << 48) | d.header.seq;
    begin("s", kActors, d.header.from.v, sent);
    std::fprintf(out_, ",\"cat\":\"message\",\"name\":\"%s\",\"id\":%llu}", kind.c_str(), id);
    begin("f", kActors, track, at);
    std::fprintf(out_, ",\"cat\":\"message\",\"name\":\"%s\",\"id\":%llu,\"bp\":\"e\"}",
                 kind.c_str(), id);
  }
  /// What the message says of transfers, engine steps and requests.
  void inside(const Delivered& d, wire::Message::Reader message) {
    const int64_t now = d.header.tick.ns;
    switch (message.which()) {
      case Kind::TRANSFER_DONE:
        for (const auto result : message.getTransferDone().getResults()) {
          transfer(result, now);
        }
        break;
      case Kind::PLAN:
        plans_[message.getPlan().getStep()] = {now, message.getPlan().getRows().size()};
        step(message.getPlan().getStep());
        break;
      case Kind::STEP_DONE:
        done_[message.getStepDone().getStep()] = now;
        step(message.getStepDone().getStep());
        break;
      case Kind::QUEUED:
        request("b", message.getQueued().getRequest(), message.getQueued().getArrival());
        break;
      case Kind::REPLY:
        // It passes several actors; the gateway's copy is the last before the client.
        if (d.lane->actor == "gateway") {
          request("e", message.getReply().getRequest(), now);
        }
        break;
      default:
        break;
    }
  }
  void transfer(wire::TransferResult::Reader result, int64_t now) {
    const int from = result.getFrom() & 3;
    const int to = result.getTo() & 3;
    const int track = from * 4 + to;
    if (!named_[track]) {
      named_[track] = true;
      name("thread_name", kTransfers, track,
           std::string(kTierNames[from]) + " to " + kTierNames[to]);
    }
    const auto took = static_cast<int64_t>(std::min<uint64_t>(result.getNanos(), 1ULL << 50));
    begin("X", kTransfers, track, now);
    std::fprintf(out_,
                 ",\"dur\":%lld.%03lld,\"name\":\"block %u\",\"args\":{\"bytes\":%u,"
                 "\"status\":%u}}",
                 static_cast<long long>(took / 1000), static_cast<long long>(took % 1000),
                 result.getBlock(), result.getBytes(), result.getStatus());
  }
  /// Drawn once both ends are known; they lie in two lanes.
  void step(uint64_t number) {
    const auto plan = plans_.find(number);
    const auto done = done_.find(number);
    if (plan == plans_.end() || done == done_.end()) {
      return;
    }
    const int64_t took = std::max<int64_t>(done->second - plan->second.first, 1);
    begin("X", kEngine, 0, plan->second.first);
    std::fprintf(out_, ",\"dur\":%lld.%03lld,\"name\":\"step %llu\",\"args\":{\"rows\":%zu}}",
                 static_cast<long long>(took / 1000), static_cast<long long>(took % 1000),
                 static_cast<unsigned long long>(number), plan->second.second);
    plans_.erase(plan);
    done_.erase(done);
  }
  void request(const char* phase, uint64_t id, int64_t at) {
    begin(phase, kRequests, 0, at);
    std::fprintf(out_, ",\"cat\":\"request\",\"name\":\"request %llu\",\"id\":%llu}",
                 static_cast<unsigned long long>(id), static_cast<unsigned long long>(id));
  }

  const std::vector<trace::LaneFiles>& lanes_;
  std::FILE* out_;
  bool first_ = true;
  LaneTimes times_;
  std::map<uint64_t, std::pair<int64_t, size_t>> plans_;  // step: tick and rows
  std::map<uint64_t, int64_t> done_;
  bool named_[16] = {};
};

}  // namespace

Status write_timeline(const std::vector<trace::LaneFiles>& lanes, std::FILE* out,
                      std::vector<std::string>& notices) {
  auto more = Timeline(lanes, out).write();
  notices.insert(notices.end(), more.begin(), more.end());
  return std::fflush(out) == 0 && std::ferror(out) == 0
             ? Status::ok()
             : Status(Code::kIo, "the timeline could not be written");
}

}  // namespace troupe
