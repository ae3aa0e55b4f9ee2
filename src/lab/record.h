// What is written down about a running lab, so that other processes can enter its hosts, and so
// that whatever a lab left behind is found by the next one. The networks themselves need no record:
// the kernel removes them with the lab's process. What can stay are processes that were started
// into a host from outside. Thread rule: any thread; one process at a time writes the record of a
// name.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace meadow::lab {

// In the environment of every process in a lab, with the lab's id as its value.
inline constexpr char kIdVariable[] = "MEADOW_LAB_ID";

struct RecordedHost {
  std::string name;
  std::string address;
  uint64_t inode = 0;   // of the network namespace
  int descriptor = -1;  // of the namespace in the lab's process
};

struct Record {
  std::string name;
  uint64_t id = 0;     // random
  pid_t process = 0;   // that holds the networks
  uint64_t start = 0;  // its start time as /proc tells it: a number may come again, this does not
  std::vector<RecordedHost> hosts;

  const RecordedHost* find(std::string_view host) const;
  // /proc/PID/fd/N of the host's namespace.
  std::string path(const RecordedHost& host) const;
};

// kCorrupt for anything that to_text() does not write.
Result<Record> parse_record(std::string_view text);
std::string to_text(const Record& record);

// Start time of a process as in /proc/PID/stat; 0 if there is none.
uint64_t start_time(pid_t process);
inline bool is_alive(const Record& record) {
  return record.process > 0 && start_time(record.process) == record.start;
}

// The folder with the records: $MEADOW_LAB_STATE, else /run/meadow-lab.
std::string record_folder();
Result<void> write_record(const std::string& folder, const Record& record);
void remove_record(const std::string& folder, const std::string& name);
// kNotFound if no lab with this name runs.
Result<Record> read_record(const std::string& folder, const std::string& name);
std::vector<Record> read_records(const std::string& folder);

// Kills the processes that are in a host of the lab and carry its id; returns how many.
int kill_processes(const Record& record);

struct Reaped {
  std::string name;
  int processes = 0;
};
// For every lab that is no more: kills what it left and forgets its record.
std::vector<Reaped> reap(const std::string& folder);

}  // namespace meadow::lab
