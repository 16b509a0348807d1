// Reading half of the MetaLog: superblock, snapshot, journals. What it reads is hostile: every
// length and number is checked, damage shortens the start or makes it cold, never fails it.
#include "io/crash_point.h"
#include "io/store/meta_log.h"
#include "io/store/meta_names.h"
#include "io/wire.h"
#include "runtime/base/log.h"

#include <openssl/rand.h>

#include <algorithm>

namespace troupe::io {
namespace {

constexpr uint32_t kSuperMagic = 0x54535254;  // "TRST"
constexpr uint32_t kSuperVersion = 1;
constexpr size_t kSuperFixed = 32;  // magic, version, id, number of classes
constexpr uint64_t kSuperMax = 4096;
constexpr uint64_t kMetaFileMax = uint64_t{8} << 30;  // 16 M blocks with 16 tokens each
// Data written, but not yet in the journal when the process died, used numbers that we can't know.
constexpr uint64_t kSequenceGap = uint64_t{1} << 20;

}  // namespace

const char* durability_name(Durability durability) noexcept {
  switch (durability) {
    case Durability::kEphemeral:
      return "ephemeral";
    case Durability::kClean:
      return "clean";
    case Durability::kCrash:
      return "crash";
  }
  return "unknown";
}

Expected<std::unique_ptr<MetaLog>> MetaLog::recover(std::unique_ptr<MetaFiles> files,
                                                    const StoreLayout& layout,
                                                    Durability durability, bool with_thread,
                                                    SlotTable& table) {
  TROUPE_ASSERT(durability != Durability::kEphemeral);
  std::unique_ptr<MetaLog> log(new MetaLog(std::move(files), durability, with_thread));
  TROUPE_TRY(log->load(layout, table));
  crash_point("recovery.done");
  return log;
}

Status MetaLog::load(const StoreLayout& layout, SlotTable& table) {
  TROUPE_TRY(files_->remove(kSuperblockTemp));
  TROUPE_TRY(files_->remove(kSnapshotTemp));
  auto known = load_superblock(layout);
  if (!known) {
    return known.status();
  }
  if (!known.value()) {
    TROUPE_TRY(start_cold(layout, table, report_.reason));
  } else {
    auto names = files_->list();
    if (!names) {
      return names.status();
    }
    std::vector<uint64_t> journals;
    for (const auto& [name, bytes] : names.value()) {
      if (const uint64_t index = journal_index_of(name); index > 0) {
        journals.push_back(index);
        journal_index_ = std::max(journal_index_, index);
      }
    }
    oldest_journal_ = journals.empty() ? 1 : *std::min_element(journals.begin(), journals.end());
    if (!load_snapshot(table)) {
      TROUPE_TRY(start_cold(layout, table, report_.reason));
    } else {
      load_journals(table);
      report_.cold = false;
      report_.rows = table.live_rows();
      next_sequence_ += kSequenceGap;
      synced_sequence_ = next_sequence_;  // what was read back was on the disk
    }
  }
  crash_point("recovery.read.after");
  if (durability_ == Durability::kClean) {
    // Used up: a crash from here on starts cold.
    TROUPE_TRY(files_->remove(kSnapshotName));
    for (uint64_t i = oldest_journal_; i <= journal_index_; ++i) {
      TROUPE_TRY(files_->remove(journal_name(i)));
    }
    oldest_journal_ = ++journal_index_;
    return resized_ ? write_superblock(layout) : Status::ok();
  }
  TROUPE_TRY(open_journal(journal_index_ + 1));
  if (!resized_) {
    return Status::ok();
  }
  // Rows that no longer fit must be gone for good before the new size counts: growing again later
  // would bring them back, over bytes that were cut off.
  begin_snapshot(false);
  step(table, true);
  if (snapshots_done_ == 0) {
    return {Code::kIo, "the store's size can't be changed: its snapshot could not be written"};
  }
  return write_superblock(layout);
}

Expected<bool> MetaLog::load_superblock(const StoreLayout& layout) {
  auto bytes = files_->read(kSuperblockName, kSuperMax);
  if (!bytes) {
    if (bytes.status().code() == Code::kNotFound || bytes.status().code() == Code::kNoCapacity) {
      report_.reason =
          bytes.status().code() == Code::kNotFound ? "new store" : "superblock has a wrong size";
      return false;
    }
    return bytes.status();
  }
  auto super = decode_superblock(bytes.value());
  if (!super) {
    if (super.status().code() == Code::kUnsupported) {
      return super.status();
    }
    report_.reason = super.status().text();
    return false;
  }
  const StoreLayout& old = super->layout;
  if (!old.same_granules(layout)) {
    report_.reason = "the store has other size classes";
    return false;
  }
  id_ = super->id;
  resized_ = old.granules() != layout.granules();
  return true;
}

Expected<Superblock> decode_superblock(std::span<const std::byte> in) {
  if (in.size() < kSuperFixed + 8 || get_le<uint32_t>(in, 0) != kSuperMagic) {
    return {Code::kCorrupt, "superblock is damaged"};
  }
  if (get_le<uint32_t>(in, 4) != kSuperVersion) {
    return {Code::kUnsupported,
            "the store was written in version " + std::to_string(get_le<uint32_t>(in, 4)) +
                ", this build knows version 1: use that build, or remove the directory"};
  }
  const auto count = get_le<uint32_t>(in, 24);
  if (count > 16 || in.size() != kSuperFixed + 8 * size_t{count} + 8 ||
      get_le<uint64_t>(in, in.size() - 8) != default_checksum(in.first(in.size() - 8))) {
    return {Code::kCorrupt, "superblock is damaged"};
  }
  std::vector<SizeClass> classes;
  for (uint32_t i = 0; i < count; ++i) {
    classes.push_back(
        {get_le<uint32_t>(in, kSuperFixed + 8 * i), get_le<uint32_t>(in, kSuperFixed + 8 * i + 4)});
  }
  auto layout = StoreLayout::create(classes);
  if (!layout) {
    return {Code::kCorrupt, "superblock is damaged: " + layout.status().text()};
  }
  return Superblock{.id = get_le<std::array<std::byte, 16>>(in, 8),
                    .layout = std::move(layout).value()};
}

Status MetaLog::write_superblock(const StoreLayout& layout) {
  std::vector<std::byte> bytes(kSuperFixed + 8 * layout.classes().size());
  const std::span<std::byte> out(bytes);
  put_le(out, 0, kSuperMagic);
  put_le(out, 4, kSuperVersion);
  put_le(out, 8, id_);
  put_le(out, 24, static_cast<uint32_t>(layout.classes().size()));
  for (size_t i = 0; i < layout.classes().size(); ++i) {
    put_le(out, kSuperFixed + 8 * i, layout.classes()[i].granule_bytes);
    put_le(out, kSuperFixed + 8 * i + 4, layout.classes()[i].granules);
  }
  const uint64_t checksum = default_checksum(bytes);
  bytes.resize(bytes.size() + 8);
  put_le(std::span<std::byte>(bytes), bytes.size() - 8, checksum);
  crash_point("superblock.write.before");
  TROUPE_TRY(files_->create(kSuperblockTemp));
  if (crash_is_due("superblock.write.torn")) {
    static_cast<void>(files_->append(kSuperblockTemp, std::span(bytes).first(bytes.size() / 2)));
  }
  crash_point("superblock.write.torn");
  TROUPE_TRY(files_->append(kSuperblockTemp, bytes));
  TROUPE_TRY(files_->sync(kSuperblockTemp));
  crash_point("superblock.write.after");
  TROUPE_TRY(files_->rename(kSuperblockTemp, kSuperblockName));
  crash_point("superblock.rename.after");
  return Status::ok();
}

Status MetaLog::start_cold(const StoreLayout& layout, SlotTable& table, const std::string& why) {
  if (why != "new store") {
    TROUPE_LOG_WARN("disk tier starts cold: %s", why.c_str());
  }
  table = SlotTable(layout.granules());
  policy_.clear();
  next_sequence_ = 1;
  report_ = RecoveryReport{.cold = true, .reason = why};
  auto names = files_->list();
  if (!names) {
    return names.status();
  }
  TROUPE_TRY(files_->remove(kSnapshotName));
  for (const auto& [name, bytes] : names.value()) {
    if (journal_index_of(name) > 0) {
      TROUPE_TRY(files_->remove(name));
    }
  }
  journal_index_ = 0;
  oldest_journal_ = 1;
  next_number_ = 1;
  // A new identity: what an earlier life left in data files can't be taken for ours.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(id_.data()), static_cast<int>(id_.size())) != 1) {
    return {Code::kUnavailable, "no random bytes for the store's id"};
  }
  return write_superblock(layout);
}

bool MetaLog::load_snapshot(SlotTable& table) {
  auto bytes = files_->read(kSnapshotName, kMetaFileMax);
  if (!bytes) {
    if (bytes.status().code() != Code::kNotFound) {
      report_.reason = bytes.status().to_string();
      return false;
    }
    if (durability_ == Durability::kClean || oldest_journal_ != 1) {
      report_.reason = durability_ == Durability::kClean ? "the last run did not close in order"
                                                         : "the snapshot is missing";
      return false;
    }
    return true;  // the first journals of a young store stand alone
  }
  uint64_t first_journal = 0;
  bool ended = false, clean = false, wrong = false;
  std::vector<Slot> quarantined;
  const ScanEnd end = scan_entries(bytes.value(), 1, [&](const Entry& entry) {
    if (ended || (entry.number == 1) != (entry.kind == EntryKind::kBegin)) {
      return false;
    }
    switch (entry.kind) {
      case EntryKind::kBegin:
        wrong = entry.payload.size() != 32 ||
                get_le<std::array<std::byte, 16>>(entry.payload, 0) != id_;
        if (!wrong) {
          first_journal = get_le<uint64_t>(entry.payload, 16);
          next_sequence_ = std::max(next_sequence_, get_le<uint64_t>(entry.payload, 24));
        }
        return !wrong;
      case EntryKind::kEnd:
        ended =
            entry.payload.size() == 12 && get_le<uint64_t>(entry.payload, 0) == entry.number - 1;
        clean = ended && get_le<uint32_t>(entry.payload, 8) != 0;
        return ended;
      default:
        return apply(entry, table);
    }
  });
  report_.entries += end.entries;
  if (!end.whole || !ended) {
    report_.reason =
        wrong ? "the snapshot is another store's" : "the snapshot is damaged (" + end.reason + ")";
    return false;
  }
  snapshot_bytes_ = bytes->size();
  if (durability_ == Durability::kClean && (!clean || journal_index_ >= first_journal)) {
    report_.reason = "the last run did not close in order";
    return false;
  }
  oldest_journal_ = std::max<uint64_t>(1, std::min(oldest_journal_, first_journal));
  for (uint64_t i = oldest_journal_; i < first_journal; ++i) {
    static_cast<void>(files_->remove(journal_name(i)));  // a crash left it behind the rename
  }
  oldest_journal_ = first_journal;
  journal_index_ = std::max(journal_index_, first_journal - 1);
  return true;
}

void MetaLog::load_journals(SlotTable& table) {
  uint64_t expected = 0;  // the first journal's numbers start anywhere
  for (uint64_t index = oldest_journal_; index <= journal_index_; ++index) {
    auto bytes = files_->read(journal_name(index), kMetaFileMax);
    if (!bytes) {
      report_.reason = "journal " + std::to_string(index) + ": " + bytes.status().text();
      break;
    }
    bool first = true;
    const ScanEnd end = scan_entries(bytes.value(), expected, [&](const Entry& entry) {
      if (!first) {
        return apply(entry, table);
      }
      first = false;
      return entry.kind == EntryKind::kBegin && entry.payload.size() == 32 &&
             get_le<std::array<std::byte, 16>>(entry.payload, 0) == id_ &&
             get_le<uint64_t>(entry.payload, 16) == index;
    });
    report_.entries += end.entries;
    ++report_.journals;
    old_bytes_ += bytes->size();
    if (!end.whole) {
      report_.reason = "journal " + std::to_string(index) + " " + end.reason;
    }
    if (end.entries == 0) {
      continue;  // it used up no number, so what follows fits or is refused by its own first number
    }
    expected = end.next;
    next_number_ = end.next;
  }
}

bool MetaLog::apply(const Entry& entry, SlotTable& table) {
  switch (entry.kind) {
    case EntryKind::kPut: {
      BlockRecord record;
      if (decode_compact(entry.payload, record) != RecordFault::kNone) {
        return false;
      }
      next_sequence_ = std::max(next_sequence_, record.sequence + 1);
      report_.outside +=
          uint64_t{record.slot.first.v} + record.slot.count > table.granules() ? 1 : 0;
      table.put(record);
      return true;
    }
    case EntryKind::kDrop: {
      Slot slot;
      if (entry.payload.size() != 20 || !decode_slot(entry.payload.first(12), slot)) {
        return false;
      }
      const auto before = get_le<uint64_t>(entry.payload, 12);
      next_sequence_ = std::max(next_sequence_, before);
      for (const Slot& old : table.overlapping(slot)) {
        table.drop(old, before);
      }
      return true;
    }
    case EntryKind::kQuarantine:
    case EntryKind::kReinstate: {
      Slot slot;
      if (!decode_slot(entry.payload, slot)) {
        return false;
      }
      if (entry.kind == EntryKind::kQuarantine) {
        table.quarantine(slot);
      } else {
        table.reinstate(slot);
      }
      return true;
    }
    case EntryKind::kPolicy:
      policy_.assign(entry.payload.begin(), entry.payload.end());
      return true;
    case EntryKind::kInvalid:
    case EntryKind::kBegin:
    case EntryKind::kEnd:
      return false;
  }
  return false;
}

}  // namespace troupe::io
